"""Tasks and searches on deployed forms of vectors (`holdfast.forms`), from the vectors that the plain form has already.

The two texts of a pair, and the texts of a classifier, are stored vectors: both are in the form. In a search the
documents are in the form and the queries are float.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.encoding import Vectors
from holdfast.errors import UserError
from holdfast.evaluation.dense_search import NearestDocuments, Positions
from holdfast.evaluation.vectors import Encode, LoadedTask
from holdfast.forms import FittedForm, Form


@dataclass(frozen=True)
class FormTask:
    """A task on vectors of a form; its row has ``form``, and ``vectors`` with their size and calibration.

    Attributes:
        task: the task.
        form: the form.
        calibrated_on: the task without noise, on whose texts the form is calibrated.
    """

    task: LoadedTask
    form: Form
    calibrated_on: LoadedTask

    @property
    def name(self) -> str:
        """The task's id."""
        return self.task.name

    @property
    def sentences(self) -> Iterable[str]:
        """All sentences whose vectors are needed."""
        return self.task.sentences

    def score(self, encode: Encode) -> dict[str, Any]:
        """Return the row of results of the form."""
        fitted = self.form.fitted(encode(list(dict.fromkeys(self.calibrated_on.sentences))))
        try:
            row = self.task.score(lambda texts: fitted.documents(encode(texts)))
        except UserError as error:  # the plain form has a score
            raise UserError(f"--as {self.form}: {error}; leave this form out") from error
        return {**row, "form": str(self.form), "vectors": fitted.record()}


def in_forms(versions: Sequence[LoadedTask], forms: Sequence[Form]) -> list[LoadedTask]:
    """Return the versions of a task, the clean one first, followed by them in each form."""
    return [*versions, *(FormTask(version, form, versions[0]) for form in forms for version in versions)]


class SearchInForms:
    """The nearest documents of queries, in the plain form and in others; see `NearestDocuments`.

    A form is calibrated on the documents that are added first.

    Args:
        queries: vectors of Q queries, (Q, D).
        k: number of documents to keep.
        similarity: name of the similarity.
        forms: the forms besides the plain one.
    """

    def __init__(self, queries: Vectors, k: int, similarity: str, forms: Sequence[Form] = ()) -> None:
        self._queries, self._k, self._similarity, self._forms = queries, k, similarity, forms
        self._plain = NearestDocuments(queries, k, similarity)
        self._searches: dict[str, tuple[FittedForm, NearestDocuments]] = {}

    def add(self, documents: Vectors) -> None:
        """Add the vectors (n, D) of the next documents."""
        self._plain.add(documents)
        for form in self._forms:
            if (name := str(form)) not in self._searches:
                fitted = form.fitted(documents, of="documents")
                queries = fitted.queries(self._queries)
                self._searches[name] = fitted, NearestDocuments(queries, self._k, self._similarity)
            fitted, nearest = self._searches[name]
            nearest.add(fitted.documents(documents))

    def positions(self) -> Iterator[tuple[str | None, Positions]]:
        """Yield the name of each form, None for the plain one, and the positions of its best documents, (Q, k)."""
        yield None, self._plain.positions
        for name, (_, nearest) in self._searches.items():
            yield name, nearest.positions

    def records(self) -> Mapping[str, dict[str, Any]]:
        """Return the record of each form."""
        return {name: fitted.record() for name, (fitted, _) in self._searches.items()}
