"""Archives of a hub repository in SentEval's layout, such as SimCSE's ``senteval.tar``: download and unpacking."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

from holdfast.data import senteval
from holdfast.data.hub import HubSource, refuse_unreachable, switched_off
from holdfast.errors import UserError, first_line
from holdfast.files import cache_folder, one_line_write_errors

_MOST_BYTES = 2 << 30
"""Largest unpacked size that is accepted; SimCSE's archive has about 0.2 GB."""


def senteval_root(source: HubSource) -> Path:
    """Return SentEval's folder in the archive of ``source``, which is downloaded and unpacked once.

    It is unpacked to ``$HOLDFAST_CACHE/senteval/REVISION``, by default below ``~/.cache/holdfast``.

    Raises:
        UserError: the hub cannot be reached, has no such file, or the archive is damaged or has another layout.
    """
    archive = _downloaded(source)
    folder = cache_folder("senteval") / archive.parent.name  # the revision, in the cache of the hub's library
    if not folder.is_dir():
        _unpack(archive, folder, source)
    root = senteval.find_root(folder)
    if root is None:
        raise UserError(f"{source} has not the layout of SentEval's folder ({folder}): give --data instead")
    return root


def check_archive(source: HubSource, *, reachable: bool | None = None) -> None:
    """Raise the error of `senteval_root` for an archive that is not there, without a download.

    Raises:
        UserError: the hub cannot be reached, or has no such file.
    """
    if _cached(source) is not None:
        return
    if variable := switched_off():
        raise UserError(f"{source} is on the hub, and {variable} forbids the network: unset it or give --data")
    refuse_unreachable(source, reachable=reachable)
    import huggingface_hub

    try:
        found = huggingface_hub.file_exists(source.name, str(source.archive), repo_type="dataset")
    except Exception as error:  # as in `hub`: many unrelated types, each of which means that it cannot be had
        raise _not_loaded(source, error) from error
    if not found:
        raise UserError(f"the hub has no {source}: give --data instead")


def _cached(source: HubSource) -> Path | None:
    import huggingface_hub

    found = huggingface_hub.try_to_load_from_cache(source.name, str(source.archive), repo_type="dataset")
    return Path(found) if isinstance(found, str) else None


def _downloaded(source: HubSource) -> Path:
    if (cached := _cached(source)) is not None:
        return cached
    check_archive(source)
    import huggingface_hub

    try:
        return Path(huggingface_hub.hf_hub_download(source.name, str(source.archive), repo_type="dataset"))
    except Exception as error:
        raise _not_loaded(source, error) from error


def _not_loaded(source: HubSource, error: Exception) -> UserError:
    return UserError(f"the hub file {source} could not be loaded ({first_line(error)}): give --data instead")


def _unpack(archive: Path, folder: Path, source: HubSource) -> None:
    """Unpack to a temporary folder beside the target, and rename it."""
    with one_line_write_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            target = Path(temporary) / "unpacked"
            target.mkdir()
            try:
                with tarfile.open(archive) as opened:
                    if sum(member.size for member in opened) > _MOST_BYTES:
                        raise UserError(f"{source} holds more than {_MOST_BYTES >> 30} GiB: give --data instead")
                    _extract(opened, target)
            except tarfile.TarError as error:
                raise UserError(f"{archive} is damaged ({first_line(error)}): remove it and run again") from error
            if not folder.is_dir():  # another process may have been faster
                target.replace(folder)


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Write the regular files of an archive into a folder; links and devices are left out.

    `tarfile`'s own filters are not in every release of Python 3.10 and 3.11.

    Raises:
        tarfile.TarError: a path leads out of the folder.
    """
    root = folder.resolve()
    for member in archive:
        if not member.isfile():
            continue
        path = (root / member.name).resolve()
        if root not in path.parents:
            raise tarfile.TarError(f"{member.name} leads out of the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        source = archive.extractfile(member)
        assert source is not None  # it is a regular file
        with source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
