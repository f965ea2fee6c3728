"""Handlers: Spaces and jobs, as far as a client can tell: what was asked for is kept, nothing runs."""

from starlette.responses import Response

from hub.local.accounts import stamp
from hub.local.call import Call, answer
from hub.local.refusal import Refusal


def runtime(call: Call) -> Response:
    """Describe a Space's machine."""
    repository = call.seen()
    files = call.hub.repositories.commit(repository, "main").tree
    return answer(
        {
            "stage": "BUILDING" if "app.py" in files else "NO_APP_FILE",
            "hardware": {"current": None, "requested": repository.hardware or "cpu-basic"},
            "storage": None,
            "gcTimeout": None,
            "replicas": {"requested": 1},
        }
    )


def set_hardware(call: Call) -> Response:
    """Ask for another machine."""
    repository = call.writable()
    wanted = call.document().get("flavor")
    call.hub.repositories.save(repository.model_copy(update={"hardware": wanted}))
    return runtime(call)


def set_variable(call: Call) -> Response:
    """Set a variable of a Space."""
    repository, wanted = call.writable(), call.document()
    variables = {**repository.variables, str(wanted["key"]): str(wanted["value"])}
    call.hub.repositories.save(repository.model_copy(update={"variables": variables}))
    return answer(_values(variables))


def variables(call: Call) -> Response:
    """List the variables of a Space."""
    return answer(_values(call.writable().variables))


def set_secret(call: Call) -> Response:
    """Remember that a Space has a secret of this name; its value is not kept."""
    repository, wanted = call.writable(), call.document()
    secrets = tuple(sorted({*repository.secrets, str(wanted["key"])}))
    call.hub.repositories.save(repository.model_copy(update={"secrets": secrets}))
    return answer({key: {} for key in secrets})


def secrets(call: Call) -> Response:
    """List the names of a Space's secrets."""
    return answer({key: {} for key in call.writable().secrets})


def submit_job(call: Call) -> Response:
    """Take a job down; it is never run."""
    namespace, wanted = call.parts["org"], call.document()
    if not call.hub.may_write(call.known_user, f"{namespace}/job"):
        raise Refusal(403, f"{call.known_user} may not start jobs in {namespace}")
    job = {
        "id": f"local{len(call.hub.jobs):019d}",
        "createdAt": stamp(call.hub.now()),
        "owner": {"id": namespace, "name": namespace, "type": "user"},
        "status": {"stage": "RUNNING", "message": None},
        **{key: value for key, value in wanted.items() if key != "secrets"},
        "secrets": sorted(wanted.get("secrets") or ()),
    }
    call.hub.jobs.append(job)
    return answer(job)


def list_jobs(call: Call) -> Response:
    """List the jobs that were taken down."""
    namespace = call.parts["org"]
    if not call.hub.may_write(call.known_user, f"{namespace}/job"):
        raise Refusal(403, f"{call.known_user} may not see the jobs of {namespace}")
    return answer([job for job in call.hub.jobs if job["owner"]["name"] == namespace])


def _values(variables: dict[str, str]) -> dict[str, dict[str, str]]:
    return {key: {"key": key, "value": value} for key, value in variables.items()}
