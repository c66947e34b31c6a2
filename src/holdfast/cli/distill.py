"""``holdfast distill``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.cli.app import AUDIT
from holdfast.cli.console import work_quietly
from holdfast.cli.verbs import Call, verb
from holdfast.hardening.distill_settings import DistillSettings


@verb(
    DistillSettings,
    short_help="Train a small or a robust student of an encoder.",
    panel=AUDIT,
    resumes=True,
    examples="""
holdfast distill sentence-transformers/all-MiniLM-L6-v2 --student layers=3 --corpus mine.txt --output student
holdfast distill my-encoder --student layers=4,hidden=256,vocabulary=12000 --corpus mine.txt,wiki --output small
holdfast distill my-encoder --student layers=3 --corpus mine.txt --set noise=0 --export fp16 --output small
""",
)
def distill(settings: DistillSettings, call: Call) -> None:
    """Train a student that gives changed texts the vectors that its teacher gives the clean ones."""
    with work_quietly():
        from holdfast.hardening.distillation_run import distill as run

        result = run(settings, resume=call.resume, console=call.progress, command=call.command)
    call.print_made(result, "A student", _rows(result), f'Load it with: SentenceTransformer("{result["model"]}")')


def _rows(result: Mapping[str, Any]) -> dict[str, str]:
    from holdfast.hardening.student_card import space_of

    protocol, made = result["protocol"], result["made"]
    corpus = protocol["corpus"]
    shape = ", ".join(f"{value} {name}" for name, value in protocol["shape"].items())
    rows = {
        "teacher": f"{protocol['teacher']}, {made['teacher_parameters'] / 1e6:.1f} M weights",
        "student": f"{protocol['student']}: {shape}",
        "corpus": f"{corpus['source']}, {corpus['sentences']:,} texts",
        "steps": f"{made['steps']:,} in {made['train_seconds'] / 60:.1f} min",
        "size": f"{made['parameters'] / 1e6:.1f} M weights, {made['megabytes']:.1f} MB in {made['stored']}",
        "vectors": f"{made['dimensions']} numbers, in the {space_of(protocol, made)}'s space",
        "speed": f"{made['speed']:.1f} times the teacher's ({made['texts_per_second']:,.0f} and "
        f"{made['teacher_texts_per_second']:,.0f} texts/s)",
    }
    for row in result["results"]:
        metric = next(iter(row["metrics"]))
        digits = 2 if metric == "spearman" else 4
        student, teacher = (f"{row['metrics'][name]:.{digits}f}" for name in (metric, f"teacher_{metric}"))
        names = {"held-out-clean": "cosine, clean", "held-out-noisy": "cosine, noisy", "dev": "STS-B dev"}
        rows[names[row["split"]]] = f"{student} (teacher {teacher}; {row['n']:,})"
    return rows
