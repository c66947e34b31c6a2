"""Deployed forms of vectors: shortened to their first dimensions, quantised to bytes or bits, or both.

A `Form` is what ``--as int8,dim=256,dim=256+binary`` names. A form that is calibrated (`FittedForm`) turns vectors of a
model into the vectors that an index of this form stands for, as float32, so that whatever compares vectors can compare
those of a form. Both are pure functions of vectors: nothing is encoded again.

Vectors are quantised by ``sentence_transformers.quantize_embeddings``. A byte is read back as the lower end of its
interval, as in sentence-transformers' rescoring, so that int8 and uint8 give the same numbers; a bit is read back as
+1 or -1. Then the model's similarity applies. The cosine of two texts in bits is 1 - 2h/d with their Hamming distance
h; that of a float query with a document in bits is the dot product of the query with +1 and -1, up to a constant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from holdfast.errors import UserError, did_you_mean

if TYPE_CHECKING:  # names of rows and forms are needed before any vectors, and by the help
    import numpy as np
    import numpy.typing as npt

    Vectors = npt.NDArray[np.float32]

Row = TypeVar("Row", bound=Mapping[str, Any])
PRECISIONS = ("float32", "int8", "uint8", "binary", "ubinary")
"""Names of precisions, as in sentence-transformers."""
FLOAT32 = "float32"
"""The name of the form of the vectors as the model gives them."""
_DIMENSIONS = "dim="
_EXAMPLES = "dim=256, dim=256+int8"


@dataclass(frozen=True)
class Form:
    """A form of vectors.

    Attributes:
        precision: one of `PRECISIONS`.
        dimensions: number of first dimensions that are kept; None: all.
    """

    precision: str = FLOAT32
    dimensions: int | None = None

    def __str__(self) -> str:
        """Return the name: ``int8``, ``dim=256``, ``dim=256+int8``, ``float32``."""
        shortened = [] if self.dimensions is None else [f"{_DIMENSIONS}{self.dimensions}"]
        return "+".join([*shortened, *([self.precision] if self.precision != FLOAT32 else [])]) or FLOAT32

    def size(self, dimensions: int) -> int:
        """Return the bytes of a vector that has ``dimensions`` in the model."""
        kept = self.dimensions or dimensions
        if self.precision.endswith("binary"):
            return -(-kept // 8)
        return kept * (4 if self.precision == FLOAT32 else 1)

    def require(self, dimensions: int, spec: str) -> None:
        """Refuse a form with more dimensions than the vectors of a model, ``spec``.

        Raises:
            UserError: with the nearest form.
        """
        if self.dimensions is not None and self.dimensions > dimensions:
            nearest = Form(self.precision, dimensions)
            raise UserError(
                f"--as {self}: {spec} has {dimensions:,} dimensions (did you mean {str(nearest)!r}?): keep as many or "
                "fewer"
            )

    def require_of(self, model: Any, spec: str) -> None:
        """Refuse a form with more dimensions than a loaded model has, as in `require`; a function shows them later."""
        dimensions = getattr(model, "get_embedding_dimension", lambda: None)()
        if dimensions:
            self.require(dimensions, spec)

    def fitted(self, calibration: Vectors, *, of: str = "texts", spec: str = "the model") -> FittedForm:
        """Return the form with the ranges of its bytes, the smallest and the largest number of each dimension.

        Args:
            calibration: vectors of the model, (n, d), that the index will hold, or a sample of them.
            of: what these vectors are of, for the record.
            spec: the name of the model, for messages.

        Raises:
            UserError: the vectors have fewer dimensions than the form, or there is none.
        """
        import numpy as np

        if not len(calibration):
            raise UserError(f"--as {self}: there are no {of} to calibrate it on")
        self.require(calibration.shape[1], spec)
        kept = _shortened(calibration, self.dimensions)
        finite = np.isfinite(kept).all(axis=1)  # one damaged vector must not damage all
        kept = kept[finite] if finite.any() else kept
        ranges = np.vstack((kept.min(axis=0), kept.max(axis=0))).astype(np.float32)
        return FittedForm(self, ranges, len(calibration), of)


@dataclass(frozen=True)
class FittedForm:
    """A calibrated form.

    Attributes:
        form: the form.
        ranges: the smallest and the largest number of each kept dimension, (2, d), float32.
        calibrated: number of vectors that the ranges are of.
        of: what these vectors are of.
    """

    form: Form
    ranges: Vectors
    calibrated: int
    of: str

    def queries(self, vectors: Vectors) -> Vectors:
        """Return the vectors (n, D) of queries as they are compared with documents: shortened, float, (n, d)."""
        return _shortened(vectors, self.form.dimensions)

    def documents(self, vectors: Vectors) -> Vectors:
        """Return the vectors (n, D) of stored texts, shortened, quantised and read back, (n, d).

        A vector that is zero or not finite has no form: it stays as it is.
        """
        import numpy as np

        kept = _shortened(vectors, self.form.dimensions)
        if self.form.precision == FLOAT32 or not len(kept):
            return kept
        is_valid = np.isfinite(kept).all(axis=1) & kept.any(axis=1)
        found: Vectors = kept.copy()
        found[is_valid] = self._read_back(self._quantised(kept[is_valid]))
        return found

    def _quantised(self, vectors: Vectors) -> npt.NDArray[np.integer[Any]]:
        import numpy as np
        from sentence_transformers.util import quantize_embeddings

        codes = quantize_embeddings(vectors, precision=self.form.precision, ranges=self.ranges)  # type: ignore[arg-type]
        return np.asarray(codes)

    def _read_back(self, codes: npt.NDArray[np.integer[Any]]) -> Vectors:
        import numpy as np

        if self.form.precision.endswith("binary"):
            # "binary" holds the bytes of "ubinary" minus 128.
            packed = (codes.astype(np.int16) + (128 if self.form.precision == "binary" else 0)).astype(np.uint8)
            bits = np.unpackbits(packed, axis=-1)[:, : self.ranges.shape[1]]
            return np.asarray(bits * 2.0 - 1.0, dtype=np.float32)
        steps = (self.ranges[1] - self.ranges[0]) / 255
        steps = np.where(steps == 0, 1, steps)
        numbers = codes.astype(np.float64) + (128 if self.form.precision == "int8" else 0)
        return np.asarray(numbers * steps + self.ranges[0], dtype=np.float32)

    def record(self) -> dict[str, Any]:
        """Return the size of a vector in bytes and the calibration, for the protocol of a result."""
        size = self.form.size(self.ranges.shape[1])
        if self.form.precision in ("int8", "uint8"):
            return {"bytes": size, "calibrated_on": f"{self.calibrated:,} {self.of}"}
        return {"bytes": size}


def parse_forms(text: str | None, where: str = "--as") -> list[Form]:
    """Return the forms in a text, joined by commas, without ``float32``, which is always measured.

    Raises:
        UserError: a name is no form (with the nearest one), or no form but float32 is named.
    """
    if text is None:
        return []
    forms = [parse_form(part.strip(), where) for part in text.split(",") if part.strip()]
    found = [form for form in dict.fromkeys(forms) if form != Form()]
    if not found:
        raise UserError(f"{where} names no form beside {FLOAT32}, which is measured anyway: {_known()}")
    return found


def parse_form(text: str, where: str = "--as") -> Form:
    """Return the form of a name: a precision, ``dim=N``, or both, joined by ``+``.

    Raises:
        UserError: it is no form; the message has the nearest one.
    """
    precisions: list[str] = []
    dimensions: list[int] = []
    for part in (part.strip() for part in text.split("+")):
        if part.startswith(_DIMENSIONS):
            number = part.removeprefix(_DIMENSIONS)
            if not re.fullmatch("0*[1-9][0-9]{0,8}", number):
                raise UserError(f"{where} does not take {part!r}: N in dim=N is a whole number of 1 or more")
            dimensions.append(int(number))
        elif part in PRECISIONS:
            precisions.append(part)
        else:
            hint = did_you_mean(part, [*PRECISIONS, "dim=256"])
            raise UserError(f"{where} does not take {part!r}{hint}: {_known()}")
    if len(precisions) > 1 or len(dimensions) > 1:
        raise UserError(f"{where} {text} joins two of a kind: {_known()}; separate forms by commas")
    return Form(precisions[0] if precisions else FLOAT32, dimensions[0] if dimensions else None)


def _known() -> str:
    return f"a form is one of {', '.join(PRECISIONS[1:])}, dim=N, or both ({_EXAMPLES})"


def forms_protocol(forms: Sequence[Form]) -> dict[str, Any]:
    """Return the part of a result's protocol about forms of vectors."""
    return {
        "forms": [str(form) for form in forms],
        "scoring_of_forms": "bytes are read back as the lower ends of their intervals, bits as +1 and -1, then the "
        "model's similarity (in bits: by Hamming distance); in a search the query is float, else both texts are in "
        "the form",
    }


def form_of(row: Mapping[str, Any]) -> str | None:
    """Return the name of the form of a row of results; None for the vectors as the model gives them."""
    form = row.get("form")
    return None if form in (None, FLOAT32) else str(form)


def plain_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of results on the vectors as the model gives them."""
    return [row for row in rows if form_of(row) is None]


def _shortened(vectors: Vectors, dimensions: int | None) -> Vectors:
    """Return the first dimensions of vectors (n, d), each scaled to the length that it had: 1 if it was normalised."""
    import numpy as np

    if dimensions is None or dimensions >= vectors.shape[1]:
        return vectors
    kept = vectors[:, :dimensions].astype(np.float64)
    before, after = (np.linalg.norm(each.astype(np.float64), axis=1, keepdims=True) for each in (vectors, kept))
    scale = np.divide(before, after, out=np.zeros_like(before), where=np.isfinite(after) & (after > 0.0))
    return np.asarray(kept * scale, dtype=np.float32)
