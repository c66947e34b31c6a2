"""What "auto" means: bf16 where a machine is faster in it, not where it merely has instructions for it."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest
import torch

from holdfast import precision


@pytest.mark.parametrize("told_by", ["/proc/cpuinfo", "platform"])
@pytest.mark.parametrize(
    ("amx", "avx512_bf16", "vendor", "auto"),
    [
        (False, False, "AuthenticAMD", "fp32"),
        (False, False, "GenuineIntel", "fp32"),
        (False, True, "AuthenticAMD", "bf16"),
        (False, True, "GenuineIntel", "fp32"),
        (True, True, "GenuineIntel", "bf16"),
    ],
)
def test_auto_is_what_the_processor_is_faster_in(
    amx: bool,
    avx512_bf16: bool,
    vendor: str,
    auto: str,
    told_by: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512_bf16)
    monkeypatch.setattr(precision, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(platform, "processor", lambda: "")
    if told_by == "platform":
        monkeypatch.setattr(platform, "processor", lambda: f"Family 6 Model 207, {vendor}")
    else:
        (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: {vendor}\n", encoding="utf-8")
    assert precision.resolve("auto", torch.device("cpu")) == auto
    for asked in ("fp32", "bf16"):
        assert precision.resolve(asked, torch.device("cpu")) == asked, "what is asked for is done"
