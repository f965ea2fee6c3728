"""The part of the Train tab that starts a run: a form over a settings file, checked before it is used."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.events import Dependency

from evals.errors import LabError
from lab.services import Services
from lab.train.runner import (
    FIELDS,
    Preview,
    Recipe,
    begin,
    free_output,
    preview,
    read_recipe,
    recipes,
    save,
    text_of,
)
from lab.ui.components import QUIET, notice, shown
from lab.ui.text import say
from training.config import STAGES
from training.launch.accelerate import profiles

FIRST = "embedded/sft"
Painted = dict[Any, Any]


@dataclass(frozen=True)
class Form:
    """What the tab needs of the form: its box, the event of starting, and the run it started, if any."""

    box: gr.Accordion
    begin: Dependency
    started: gr.State


@dataclass(frozen=True)
class Parts:
    """The components of the form. `stage`, `profile`, `rest` and `typed` make up a recipe."""

    config: gr.Dropdown
    stage: gr.Dropdown
    profile: gr.Dropdown
    rest: gr.Textbox
    typed: dict[str, gr.Textbox]
    told: gr.HTML
    name: gr.Textbox
    started: gr.State

    @property
    def recipe(self) -> list[Any]:
        """The inputs of an event that needs the whole recipe, in the order of `_recipe`."""
        return [self.stage, self.profile, self.rest, *self.typed.values()]


def build(services: Services) -> Form:
    """Lay out the form inside the `gr.Blocks` that is currently open."""
    with gr.Accordion(say("train.new"), open=False, visible=False, elem_id="train-new") as box:
        with gr.Row(elem_classes="train-form"):
            config = gr.Dropdown([], label=say("train.config"), elem_id="train-config")
            stage = gr.Dropdown([(name.upper(), name) for name in STAGES], value="sft", label=say("train.stage"))
            usual = (say("train.profile.usual"), "")
            profile = gr.Dropdown([usual, *profiles()], value="", label=say("train.profile"), elem_id="train-profile")
        with gr.Row(elem_classes="train-form"):
            typed = {
                name: gr.Textbox(
                    label=say(f"train.field.{name}"),
                    info=say(f"train.field.{name}.info"),
                    elem_id=f"train-field-{name.replace('_', '-')}",
                )
                for name in FIELDS
            }
        rest = gr.Textbox(label=say("train.rest"), lines=8, max_lines=20, elem_id="train-rest")
        with gr.Row(elem_classes="actions"):
            check = gr.Button(say("train.check"), elem_id="train-check")
            start = gr.Button(say("train.start"), variant="primary", elem_id="train-begin")
        told = gr.HTML(elem_id="train-told")
        with gr.Row(elem_classes="train-save"):
            name = gr.Textbox(label=say("train.save.name"), elem_id="train-name")
            keep = gr.Button(say("train.save"), elem_id="train-save", size="sm")
    parts = Parts(config, stage, profile, rest, typed, told, name, gr.State(None))
    _listen(services, parts)
    actions = {"check": (check, _checked), "start": (start, _started), "save": (keep, _saved)}
    clicks = {
        name: button.click(
            _acting(services, parts, act),
            [parts.name, *parts.recipe],
            [told, parts.started, config],
            api_name=f"train_{name}",
            trigger_mode="once",
            **QUIET,
        )
        for name, (button, act) in actions.items()
    }
    box.expand(
        _filling(services, parts),
        [config],
        [config, *parts.recipe, told],
        api_name="train_form",
        **QUIET,
    )
    return Form(box, clicks["start"], parts.started)


def _listen(services: Services, parts: Parts) -> None:
    """Fill the form when a file is chosen, and show the fields that a stage knows."""

    def on_stage(stage: str) -> Painted:
        return {parts.typed[name]: gr.Textbox(visible=name in _known(stage)) for name in FIELDS}

    parts.config.input(
        _filling(services, parts),
        [parts.config],
        [parts.config, *parts.recipe, parts.told],
        api_name="train_config",
        **QUIET,
    )
    parts.stage.input(on_stage, [parts.stage], [*parts.typed.values()], api_name="train_stage", **QUIET)


def _filling(services: Services, parts: Parts) -> Callable[[str | None], Painted]:
    """Return what puts a settings file into the form."""
    settings = services.settings.training

    def fill(chosen: str | None) -> Painted:
        files = recipes(settings.configs)
        name = chosen if chosen in files else FIRST
        choice = gr.Dropdown(choices=[*files], value=name)
        try:
            recipe = read_recipe(files[name])
        except LabError as error:
            return {parts.config: choice, parts.told: notice(str(error), "problem")}
        output = free_output(settings.runs[0], recipe.stage)
        values = {**recipe.fields, "output": str(output)}
        typed = {
            box: gr.Textbox(value=values.get(field, ""), visible=field in _known(recipe.stage))
            for field, box in parts.typed.items()
        }
        filled = {parts.stage: recipe.stage, parts.profile: recipe.profile, parts.rest: recipe.rest}
        return {parts.config: choice, parts.told: "", **filled, **typed}

    return fill


def _acting(
    services: Services, parts: Parts, act: Callable[[Services, Parts, str, Recipe], Painted]
) -> Callable[..., Painted]:
    """Return the handler of a button that does something with the recipe in the form."""

    def on_click(name: str, stage: str, profile: str | None, rest: str, *typed: str) -> Painted:
        values = dict(zip(FIELDS, typed, strict=True))
        recipe = Recipe(stage, values, rest, profile or "")
        try:
            return act(services, parts, name, recipe)
        except LabError as error:
            return {parts.told: notice(str(error), "problem"), parts.started: None}

    return on_click


def _checked(services: Services, parts: Parts, name: str, recipe: Recipe) -> Painted:
    return {parts.told: _told(preview(recipe, services.settings.training))}


def _started(services: Services, parts: Parts, name: str, recipe: Recipe) -> Painted:
    run = begin(recipe, services.settings.training, services.now())
    line = notice(say("train.started", run=run), "good")
    return {parts.told: line, parts.started: str(run)}


def _saved(services: Services, parts: Parts, name: str, recipe: Recipe) -> Painted:
    """Keep what is in the form as a settings file; it need not be one that can be run here and now."""
    settings = services.settings.training
    file = save(text_of(recipe, _command(recipe, name)), settings.configs, name)
    chosen = say("train.mine", name=file.stem)
    return {
        parts.told: notice(say("train.saved", file=file), "good"),
        parts.config: gr.Dropdown(choices=[*recipes(settings.configs)], value=chosen),
    }


def _command(recipe: Recipe, name: str) -> str:
    profile = f" --profile {recipe.profile}" if recipe.profile else ""
    return f"assay train {recipe.stage} --config {name.strip().removesuffix('.yaml')}.yaml{profile}"


def _told(planned: Preview) -> str:
    """Return the exact line, what the run lacks here and what to know of it."""
    problems = "".join(notice(problem, "problem") for problem in planned.problems)
    problems += "".join(notice(each) for each in planned.advice)
    line = f'<pre class="train-line" tabindex="0">{shown(planned.command)}</pre>'
    return f"{problems}<p>{shown(say('train.line'))}</p>{line}"


def _known(stage: str) -> set[str]:
    return set(STAGES[stage].model_fields)
