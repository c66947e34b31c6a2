"""Check that the wheel and the sdist in a folder hold what they should: python .ci/package.py DIST."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LARGEST_MEGABYTES = 30  # of the wheel
MODELS = ("holdfast/bundled/modules.json", "holdfast/bundled_mlm/config.json")  # those that the wheel carries


def main(folder: Path) -> int:
    """Return 0 where nothing is wrong; else print what is wrong."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    tracked = set(subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines())
    package = {name.removeprefix("src/") for name in tracked if name.startswith("src/holdfast/")}
    entries = (name for name in tracked if name.startswith("docs/leaderboard/") and name.endswith(".json"))
    package |= {name.replace("docs/leaderboard", "holdfast/leaderboard/entries") for name in entries}
    with zipfile.ZipFile(wheel) as opened:
        shipped = {name for name in opened.namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as opened_sdist:
        members = [member.name.partition("/")[2] for member in opened_sdist.getmembers() if member.isfile()]
    wrong = [f"{wheel.name} lacks {name}" for name in sorted(package - shipped)]
    wrong += [f"{wheel.name} holds {name}, which is in no commit" for name in sorted(shipped - package)]
    wrong += [f"{wheel.name} lacks the model of {name}" for name in MODELS if name not in shipped]
    foreign = sorted(set(members) - tracked - {"PKG-INFO"})
    wrong += [f"{sdist.name} holds {name}, which is in no commit" for name in foreign]
    needed = {name for name in tracked if name.startswith(("src/", "tests/"))}
    wrong += [f"{sdist.name} lacks {name}" for name in sorted(needed - set(members))]
    if (size := wheel.stat().st_size / 1e6) > LARGEST_MEGABYTES:
        wrong.append(f"{wheel.name} has {size:.0f} MB: at most {LARGEST_MEGABYTES}")
    for line in wrong:
        print(f"package: {line}", file=sys.stderr)
    print(f"package: {len(shipped)} files in the wheel, {size:.1f} MB; {len(members)} in the sdist")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
