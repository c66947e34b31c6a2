"""Check the versions: installed as in `constraints.txt`, lower bounds as they were tried, none known to be vulnerable.

The first two are checked always and fail. The last asks `pip-audit`, in an environment of its own; where its database
cannot be reached, that is said and nothing fails.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import venv
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent
CONSTRAINTS, LOWEST = ROOT / "constraints.txt", ROOT / "constraints-lowest.txt"
OWN = {"holdfast", "pip", "setuptools", "wheel"}


def main() -> int:
    """0 where nothing is wrong; else what is wrong is printed."""
    pinned, wrong = _versions(CONSTRAINTS), []
    for package in metadata.distributions():
        name, version = _normal(package.metadata["Name"]), package.version.partition("+")[0]
        # What PyTorch brings for GPUs comes with it, version by version.
        if name not in OWN and not name.startswith(("nvidia-", "triton", "cuda-")) and pinned.get(name) != version:
            wrong.append(f"{name} {version} is installed, constraints.txt says {pinned.get(name, 'nothing')}")
    wrong = [*sorted(wrong), *_untried_bounds()]
    for line in wrong:
        print(f"audit: {line}", file=sys.stderr)
    return bool(wrong) or _known_vulnerabilities()


def _versions(constraints: Path) -> dict[str, str]:
    """Return the version of each package in a file of constraints."""
    lines = [line for line in constraints.read_text().splitlines() if not line.startswith("#")]
    return {_normal(name): version for name, _, version in (line.partition("==") for line in lines)}


def _untried_bounds() -> list[str]:
    """Return a line for each lower bound of what users install other than the versions in `constraints-lowest.txt`."""
    tried, wrong = _versions(LOWEST), []
    for line in metadata.requires("holdfast") or ():
        asked, _, extra = line.partition(";")
        if any(f"'{tool}'" in extra.replace('"', "'") for tool in ("docs", "test")):
            continue
        name, _, bound = asked.strip().partition(">=")
        version = tried.get(_normal(name), "")
        if version != bound and not version.startswith(f"{bound}."):
            wrong.append(
                f"pyproject.toml asks for {asked.strip()}, constraints-lowest.txt was tried with {version or 'none'}"
            )
    return wrong


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _known_vulnerabilities() -> int:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "pip-audit"]
        if subprocess.run(install, capture_output=True, check=False).returncode != 0:
            print("audit: pip-audit cannot be installed here: known vulnerabilities were not looked up")
            return 0
        audit = [python, "-m", "pip_audit", "--no-deps", "--disable-pip", "-r", str(CONSTRAINTS), "-f", "json"]
        done = subprocess.run([*audit, "--timeout", "20"], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        reason = (done.stderr.strip().splitlines() or ["no answer"])[-1][:200]
        print(f"audit: known vulnerabilities were not looked up: {reason}")
        return 0
    asked = [package for package in packages if "vulns" in package]
    found = [(package, flaw) for package in asked for flaw in package["vulns"]]
    for package, flaw in found:
        mended = ", ".join(flaw.get("fix_versions", [])) or "no version yet"
        print(f"audit: {package['name']} {package['version']}: {flaw['id']}, mended in {mended}", file=sys.stderr)
    # A mirror of PyPI need not know of vulnerabilities: then nothing was found because nothing was asked.
    unknown = len(packages) - len(asked)
    print(f"audit: {len(found)} known vulnerabilities in {len(asked)} packages; not looked up: {unknown} packages")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
