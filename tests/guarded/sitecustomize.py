"""Python runs this first in every process that a test starts: the network guard holds there too."""

import gc
import importlib.util
import os

_path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "network.py")
_spec = importlib.util.spec_from_file_location("assay_network_guard", _path)
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
_module.NetworkGuard().install()
gc.set_threshold(100_000)  # else a tenth of what torch and trl take to import is the search for garbage
