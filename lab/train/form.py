"""The part of the Train tab that starts a run: a form over a settings file, checked before it is used."""

from dataclasses import replace
from typing import Any

import gradio as gr

from evals.errors import LabError
from lab.page import Painted, event
from lab.services import Services
from lab.train.runner import Recipe, begin, free_output, preview, proposed, read_recipe, recipes, with_values
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
            self.text = gr.Textbox(label=say("train.text"), lines=12, max_lines=30, elem_id="train-text")
            with gr.Row(elem_classes="actions"):
                check = gr.Button(say("train.check"), elem_id="train-check")
                start = gr.Button(say("train.start"), variant="primary", elem_id="train-begin")
            self.told = gr.HTML(elem_id="train-told")
        self.started = gr.State(None)
        recipe = [self.stage, self.profile, self.text]
        form = [self.config, *recipe, self.told]
        self.config.input(self.filled, [self.config], form, api_name="train_config", **CHOSEN)
        once: dict[str, Any] = {"trigger_mode": "once", **QUIET}
        event(check.click, self.on_check, recipe, [self.told], "train_check", shows=self.told, **once)
        self.begin = start.click(self.on_start, recipe, [self.told, self.started], api_name="train_start", **once)
        self.box.expand(self.on_expand, [self.config, self.text], form, api_name="train_form", **QUIET)
        self.outputs = [self.box, *form]

    def on_expand(self, chosen: str | None, text: str) -> Painted:
        """Fill a form that is still empty."""
        return {self.told: gr.skip()} if text else self.filled(chosen)

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
        return {self.config: choice, **self._of_recipe(replace(recipe, text=with_values(recipe.text, output)))}

    def _of_recipe(self, recipe: Recipe) -> Painted:
        return {self.told: "", self.stage: recipe.stage, self.profile: recipe.profile, self.text: recipe.text}

    def on_check(self, stage: str, profile: str | None, text: str) -> Painted:
        """Show the exact line, what the run lacks here and what to know of it."""
        plan = preview(Recipe(stage, text, profile or ""), self.settings)
        gpus = gpus_here() if plan.launch.gpus_per_machine else 0
        known = (*advice(plan.settings), *unused_gpus(gpus, plan.launch.processes))
        notes = [*(notice(each, "problem") for each in plan.problems), *map(notice, known)]
        line = f'<pre class="train-line" tabindex="0">{shown(plan.command)}</pre>'
        return {self.told: f"{''.join(notes)}<p>{shown(say('train.line'))}</p>{line}"}

    def on_start(self, request: gr.Request, stage: str, profile: str | None, text: str) -> tuple[str, str | None]:
        """Start the run, for the person who is logged in."""
        try:
            recipe = Recipe(stage, text, profile or "")
            run = begin(recipe, self.settings, self.services.now(), request.username or "")
        except LabError as error:
            return notice(str(error), "problem"), None
        return notice(say("train.started", run=run), "good"), str(run)
