"""How every tab tells the errors of its events."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import gradio as gr

from evals.errors import LabError
from lab.ui.components import notice
from lab.ui.layout import Painted

Given = ParamSpec("Given")


def show_errors(line: gr.HTML) -> Callable[[Callable[Given, Painted]], Callable[Given, Painted]]:
    """Decorate what an event calls: a LabError is shown in `line` as a notice, and the rest of the page stays."""

    def decorate(act: Callable[Given, Painted]) -> Callable[Given, Painted]:
        @wraps(act)
        def shown(*given: Given.args, **known: Given.kwargs) -> Painted:
            try:
                return act(*given, **known)
            except LabError as error:
                return {line: notice(str(error), "problem")}

        return shown

    return decorate
