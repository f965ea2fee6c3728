"""The part of the Train tab that starts a run: a form over a settings file, checked before it is used."""

from collections.abc import Callable
from dataclasses import replace

import gradio as gr

from evals.errors import LabError
from lab.page import Painted
from lab.services import Services
from lab.train.runner import FIELDS, Recipe, begin, free_output, preview, proposed, read_recipe, recipes, save, text_of
from lab.ui.components import CHOSEN, QUIET, notice, shown
from lab.ui.text import say
from training.grpo import advice
from training.launch.accelerate import gpus_here, profiles, unused_gpus
from training.stages import STAGES

FIRST = "embedded/sft"


class TrainForm:
    """The form: its `box`, the event `begin` of starting, and the run that was `started`, if any."""

    def __init__(self, services: Services) -> None:
        self.services, self.settings = services, services.settings.training
        with gr.Accordion(say("train.new"), open=False, visible=False, elem_id="train-new") as self.box:
            with gr.Row(elem_classes="train-form"):
                self.config = gr.Dropdown([], label=say("train.config"), elem_id="train-config")
                stages = [(name.upper(), name) for name in STAGES]
                self.stage = gr.Dropdown(stages, value="sft", label=say("train.stage"))
                usual = (say("train.profile.usual"), "")
                self.profile = gr.Dropdown(
                    [usual, *profiles()], value="", label=say("train.profile"), elem_id="train-profile"
                )
            with gr.Row(elem_classes="train-form"):
                self.typed = {
                    name: gr.Textbox(
                        label=say(f"train.field.{name}"),
                        info=say(f"train.field.{name}.info"),
                        elem_id=f"train-field-{name.replace('_', '-')}",
                    )
                    for name in FIELDS
                }
            self.rest = gr.Textbox(label=say("train.rest"), lines=8, max_lines=20, elem_id="train-rest")
            with gr.Row(elem_classes="actions"):
                check = gr.Button(say("train.check"), elem_id="train-check")
                start = gr.Button(say("train.start"), variant="primary", elem_id="train-begin")
            self.told = gr.HTML(elem_id="train-told")
            with gr.Row(elem_classes="train-save"):
                self.name = gr.Textbox(label=say("train.save.name"), elem_id="train-name")
                keep = gr.Button(say("train.save"), elem_id="train-save", size="sm")
        self.started = gr.State(None)
        recipe = [self.stage, self.profile, self.rest, *self.typed.values()]
        form = [self.config, *recipe, self.told]
        self.config.input(self.filled, [self.config], form, api_name="train_config", **CHOSEN)
        self.stage.input(self.on_stage, [self.stage], [*self.typed.values()], api_name="train_stage", **CHOSEN)
        clicks = [
            button.click(
                self._on_click(act),
                [self.name, *recipe],
                [self.told, self.started, self.config],
                api_name=f"train_{name}",
                trigger_mode="once",
                **QUIET,
            )
            for name, button, act in (
                ("check", check, self.checked),
                ("start", start, self.begun),
                ("save", keep, self.saved),
            )
        ]
        self.begin = clicks[1]
        self.box.expand(self.on_expand, [self.config, self.rest], form, api_name="train_form", **QUIET)
        self.outputs = [self.box, *form]

    def on_stage(self, stage: str) -> Painted:
        known = STAGES[stage].model_fields
        return {box: gr.Textbox(visible=name in known) for name, box in self.typed.items()}

    def on_expand(self, chosen: str | None, rest: str) -> Painted:
        """Fill a form that is still empty."""
        return {self.told: gr.skip()} if rest else self.filled(chosen)

    def propose(self, stage: str, data: str) -> Painted:
        """Open the form for a stage on data, on top of the lab's own chain."""
        try:
            recipe = proposed(stage, data, self.services.settings.chain, self.settings)
        except LabError as error:
            return {self.box: gr.Accordion(open=True), self.told: notice(str(error), "problem")}
        note = notice(say("train.proposed", chain=self.services.settings.chain))
        return {self.box: gr.Accordion(open=True, visible=True), **self._of_recipe(recipe), self.told: note}

    def filled(self, chosen: str | None) -> Painted:
        """Put a settings file into the form."""
        files = recipes(self.settings.configs)
        name = chosen if chosen in files else FIRST
        choice = gr.Dropdown(choices=[*files], value=name)
        try:
            recipe = read_recipe(files[name])
        except LabError as error:
            return {self.config: choice, self.told: notice(str(error), "problem")}
        output = {"output": str(free_output(self.settings.runs[0], recipe.stage))}
        return {self.config: choice, **self._of_recipe(replace(recipe, fields={**recipe.fields, **output}))}

    def _of_recipe(self, recipe: Recipe) -> Painted:
        values = recipe.fields
        known = STAGES[recipe.stage].model_fields
        typed = {
            box: gr.Textbox(value=values.get(field, ""), visible=field in known) for field, box in self.typed.items()
        }
        told = {self.stage: recipe.stage, self.profile: recipe.profile, self.rest: recipe.rest}
        return {self.told: "", **told, **typed}

    def _on_click(self, act: Callable[[str, Recipe, str], Painted]) -> Callable[..., Painted]:
        """Return what does something with what is in the form, for whoever is logged in."""

        def on_click(
            request: gr.Request, name: str, stage: str, profile: str | None, rest: str, *typed: str
        ) -> Painted:
            recipe = Recipe(stage, dict(zip(FIELDS, typed, strict=True)), rest, profile or "")
            try:
                return act(name, recipe, request.username or "")
            except LabError as error:
                return {self.told: notice(str(error), "problem"), self.started: None}

        return on_click

    def checked(self, name: str, recipe: Recipe, who: str) -> Painted:
        """Show the exact line, what the run lacks here and what to know of it."""
        plan = preview(recipe, self.settings)
        gpus = gpus_here() if plan.launch.gpus_per_machine else 0
        known = (*advice(plan.settings), *unused_gpus(gpus, plan.launch.processes))
        notes = [*(notice(each, "problem") for each in plan.problems), *map(notice, known)]
        line = f'<pre class="train-line" tabindex="0">{shown(plan.command)}</pre>'
        return {self.told: f"{''.join(notes)}<p>{shown(say('train.line'))}</p>{line}"}

    def begun(self, name: str, recipe: Recipe, who: str) -> Painted:
        run = begin(recipe, self.settings, self.services.now(), who)
        return {self.told: notice(say("train.started", run=run), "good"), self.started: str(run)}

    def saved(self, name: str, recipe: Recipe, who: str) -> Painted:
        """Keep what is in the form as a settings file; it need not be one that can be run here and now."""
        profile = f" --profile {recipe.profile}" if recipe.profile else ""
        command = f"assay train {recipe.stage} --config {name.strip().removesuffix('.yaml')}.yaml{profile}"
        file = save(text_of(recipe, command), self.settings.configs, name)
        chosen = say("train.mine", name=file.stem)
        return {
            self.told: notice(say("train.saved", file=file), "good"),
            self.config: gr.Dropdown(choices=[*recipes(self.settings.configs)], value=chosen),
        }
