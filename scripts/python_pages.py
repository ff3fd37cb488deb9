"""The help of the Python package as pages, by pdoc: one file that a browser opens, with a search.

    PYTHONPATH=build/python .deps/venv/bin/python scripts/python_pages.py OUT_DIR
"""
import pathlib
import sys

import pdoc
import refreshlab

# The package loads a name when it is first used; pdoc shows what is loaded, in the order in which one meets it.
refreshlab.__all__.sort(key=lambda name: ["session", "recording", "_command", "_live", "policy", "errors"].index(refreshlab._module_of[name]))
for name in refreshlab.__all__:
    setattr(refreshlab, name, getattr(refreshlab, name))
pdoc.render.configure(docformat="restructuredtext", footer_text="RefreshLab", search=True)
folder = pathlib.Path(sys.argv[1])
pdoc.pdoc("refreshlab", output_directory=folder)
print(folder / "refreshlab.html")
