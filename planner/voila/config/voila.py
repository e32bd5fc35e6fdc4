"""Voila's settings for the app; found as voila.py on JUPYTER_CONFIG_PATH.

Voila ignores `--config=FILE`: the file name and the path are what count.
"""

import atexit
from pathlib import Path
from tempfile import TemporaryDirectory

from planner.widgets import plotly_js

c = get_config()  # noqa: F821 - given by traitlets

c.Voila.ip = "127.0.0.1"
c.Voila.port = 8866
c.Voila.open_browser = False
c.VoilaConfiguration.template = "planner"
c.VoilaConfiguration.allow_template_override = "NO"
c.VoilaConfiguration.allow_theme_override = "NOTEBOOK"
c.VoilaConfiguration.strip_sources = True
c.VoilaConfiguration.show_tracebacks = False
# Nothing that lies beside the notebook is served.
c.VoilaConfiguration.file_allowlist = []
c.VoilaConfiguration.extension_allowlist = [
    "@jupyter-widgets/jupyterlab-manager",
    "@voila-dashboards/widgets-manager8",
    "anywidget",
]
# A kernel that has run the notebook waits for each of the next visitors.
c.VoilaConfiguration.preheat_kernel = True
c.VoilaConfiguration.default_pool_size = 2

# plotly.js is served as a file of its own, which browsers keep; the folder goes away
# with the server.
_served = TemporaryDirectory(prefix="planner-plotly-")
atexit.register(_served.cleanup)
(Path(_served.name) / plotly_js.FILE_NAME).write_bytes(plotly_js.for_page())
c.VoilaConfiguration.extra_labextensions_path = [_served.name]

_POLICY = (
    "default-src 'self'",
    "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "connect-src 'self' ws: wss: blob:",
    "frame-ancestors 'self'",
    "base-uri 'self'",
    "form-action 'none'",
)
c.Voila.tornado_settings = {
    # Without this Voila refuses its own page's request to end the kernel when the page
    # is closed (voila issue 1458). The app has no login cookie that could be forged.
    "disable_check_xsrf": True,
    "headers": {
        "Content-Security-Policy": "; ".join(_POLICY),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
    },
}
# Kernels whose page went away without saying so (sleep, crash).
c.MappingKernelManager.cull_idle_timeout = 600
c.MappingKernelManager.cull_interval = 30
c.MappingKernelManager.cull_connected = False
c.VoilaExecutor.timeout = 60
