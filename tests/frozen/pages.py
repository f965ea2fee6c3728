"""What scripts call: every command's options, every tab's API endpoints."""

from typing import Any

from tests.frozen.script import working_folder


def options() -> dict[str, Any]:
    """Return, for each command, its parameters: how they are written, defaults."""
    from lab.reference import every_command

    return {f"assay {words}": {_written(each): _taken(each) for each in one.params} for words, one in every_command()}


def endpoints() -> dict[str, Any]:
    """Return, for each tab and the vote arena, the names of its endpoints and of their parameters; loads no model."""
    from lab.app import ARENA, TABS, build_app
    from lab.services import build_services
    from lab.settings import from_environment

    rows: dict[str, Any] = {}
    with working_folder() as folder:
        places = {"ASSAY_DATABASE_URL": f"sqlite:///{folder / 'page.db'}", "ASSAY_CACHE": str(folder)}
        for page, tab in {**{f"tab {name}": name for name in TABS}, "arena": ARENA[0]}.items():
            api = build_app(build_services(from_environment(places)), (tab,)).get_api_info()
            for name, each in api["named_endpoints"].items():
                rows[f"{page} {name}"] = [given["parameter_name"] for given in each["parameters"]]
    return rows


def _written(parameter: Any) -> str:
    names = (*parameter.opts, *parameter.secondary_opts)
    return " ".join(names) if parameter.param_type_name == "option" else parameter.name.upper()


def _taken(parameter: Any) -> dict[str, Any]:
    default = parameter.default
    found = {
        "default": default if isinstance(default, bool | int | float | None) else str(default),
        "flag": getattr(parameter, "is_flag", False),
        "required": parameter.required,
        "many": parameter.nargs != 1 or getattr(parameter, "multiple", False),
    }
    return {key: value for key, value in found.items() if value is not None and value is not False}
