"""Sessions of a published model and a student made of its weights, and their references.

usage: session_real_jobs.py OUT_DIR PROGRAM MODEL.gguf

The reference reads what `PROGRAM derive` writes of the file: the student, and the teacher itself (a derivation that changes nothing; that
transformers gets the same logits from the file directly is another suite's part). OUT_DIR/manifest.json is as session_jobs.py writes it; its
runs take the GGUF file and derive:SPEC. Everything is made once, and the folders go again.
"""

import importlib.metadata
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys

from session_jobs import HERE, above, arguments_of, periodic, policy

SPEC = "bits=3,group=32"
QUESTION = {"prompt": "Explain in simple words why the sky is blue.", "chat": True, "ignore_stop": True, "N": 12}
JOBS = [
    QUESTION | {"name": "published periodic", "policy": policy(periodic(4))},
    QUESTION | {"name": "published entropy", "policy": policy(above("entropy_bits", 4.0, 1, 3), on_fire="redraw")},
]


def stamp(model: pathlib.Path) -> str:
    digest = hashlib.sha256(f"{model} {model.stat().st_size} {model.stat().st_mtime_ns}".encode())
    for script in ("session_jobs.py", "session_real_jobs.py", "session_reference.py"):
        digest.update((HERE / script).read_bytes())
    for package in ("torch", "transformers", "tokenizers"):
        digest.update(importlib.metadata.version(package).encode())
    return digest.hexdigest()


def main() -> None:
    out, program, model = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    mark = stamp(model)
    if (out / "stamp").exists() and (out / "stamp").read_text() == mark:
        return
    import session_reference as reference
    import torch

    torch.set_num_threads(2)
    reference.logging.set_verbosity_error()
    reference.logging.disable_progress_bar()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    folders = []
    for name, spec in (("teacher", "bits=4,group=32"), ("student", SPEC)):
        folders.append(str(out / name))
        made = subprocess.run([program, "derive", str(model), spec, "-o", folders[-1]], check=True, capture_output=True, text=True)
        assert (name == "teacher") == made.stdout.split("\n")[1].startswith("0 tensors changed"), made.stdout
    manifest = []
    for job in JOBS:
        expected = reference.run_job({"mode": "overfill", "dtype": "float64", "stop_ids": []} | job
                                     | {"teacher": folders[0], "student": folders[1]})
        assert expected["refreshes"], f"{job['name']}: nothing fires"
        close = [d for d in expected["closest"].values() if d is not None]
        assert min(close) > 1e-3, f"{job['name']}: too close to call: {expected['closest']}"
        manifest.append({"name": job["name"], "expected": expected,
                         "arguments": arguments_of(job, [str(model), "derive:" + SPEC], out / job["name"].replace(" ", "-"))})
    for folder in folders:
        shutil.rmtree(folder)
    (out / "manifest.json").write_text(json.dumps(manifest, allow_nan=False))
    (out / "stamp").write_text(mark)


if __name__ == "__main__":
    main()
