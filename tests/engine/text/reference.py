"""What the reference libraries say about text, for the tests of engine/text: one process per run of the suite.

usage: reference.py OUT_DIR SOURCE_DIR SEED
Writes what reference_ids.py, reference_families.py, reference_templates.py and reference_folders.py describe. Does nothing when OUT_DIR holds
the results of the same scripts, libraries, data and seed.
"""
import hashlib
import importlib.metadata
import pathlib
import shutil
import sys


def key_of(source, seed):
    digest = hashlib.sha256()
    versions = [importlib.metadata.version(name) for name in ("tokenizers", "transformers", "jinja2")]
    digest.update(repr((versions, sys.version, seed)).encode())
    files = sorted(pathlib.Path(__file__).parent.glob("reference*.py")) + sorted((source / "assets" / "prompts").iterdir())
    files.append(source / "assets" / "models" / "llama-tales-teacher" / "tokenizer.json")
    for file in files:
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def main():
    out, source, seed = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), int(sys.argv[3])
    key, key_file = key_of(source, seed), out / "key.txt"
    if key_file.exists() and key_file.read_text() == key:
        return
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    import reference_families
    import reference_folders
    import reference_ids
    import reference_templates
    reference_ids.write(out, source, seed)
    reference_families.write(out, source, seed)
    reference_templates.write(out)
    reference_folders.write(out, source, seed)
    key_file.write_text(key)  # last: a run that was interrupted is done again


if __name__ == "__main__":
    main()
