"""The guard that keeps the tests on this machine."""

import socket
import subprocess
import sys

import pytest

from tests.network import OutsideNetworkError, is_local

OUTSIDE = ("example.org", "8.8.8.8", "10.0.0.1", "2001:db8::1", b"example.org", "::ffff:8.8.8.8")
LOCAL = ("127.0.0.1", "127.8.9.1", "::1", "localhost", "LOCALHOST", "0.0.0.0", "::", None, "")


def test_only_this_machine_is_local():
    assert [host for host in OUTSIDE if is_local(host)] == []
    assert [host for host in LOCAL if not is_local(host)] == []


WAYS_OUT = [
    lambda: socket.create_connection(("example.org", 443), timeout=1),
    lambda: socket.getaddrinfo("example.org", 443),
    lambda: socket.getaddrinfo(host="example.org", port=443),
    lambda: socket.gethostbyname("example.org"),
    lambda: socket.socket().connect(("192.0.2.1", 80)),
    lambda: socket.socket().connect_ex(("192.0.2.1", 80)),
    lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)),
]


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("way", WAYS_OUT)
def test_every_way_out_is_refused_and_remembered(network_guard, way):
    with pytest.raises(OutsideNetworkError, match="mark the test `network`"):
        way()
    assert network_guard.attempts
    network_guard.attempts.clear()


def test_a_process_that_a_test_starts_is_guarded_too():
    code = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "OutsideNetworkError" in done.stderr
