"""Synonyms from a miniature WordNet in each of its forms, and from the real one where it is here."""

from __future__ import annotations

import importlib.util
import os
import sys
import zipfile
from pathlib import Path

import pytest

from holdfast.edits.wordnet import WordNet
from holdfast.errors import UserError

# pos, offset, words, gloss; the second sense of film comes first in the file.
SYNSETS = [
    ("n", "00000001", "film|photographic film", "a thin coat"),
    ("n", "00000002", "movie|film|picture|moving picture|pic|flick", "a form of entertainment | not a gloss"),
    ("n", "00000003", "child|kid|Tyke|x-ray", "a young person"),
    ("v", "00000004", "film|shoot|take", "make a film"),
    ("v", "00000005", "run|scat|go", "flee"),
    ("a", "00000006", "good", "with desirable qualities"),
    ("s", "00000007", "full|good|honest", "having the normally expected amount"),
    ("r", "00000008", "well|good", "in a good manner"),
    ("n", "00000009", "better|bettor", "someone who bets"),
    ("a", "00000010", "bette|drab", "what the rules alone would make of better"),
    ("r", "00000011", "abcdefghijklmnop".replace("", "|")[1:-1], "sixteen words, a count of 10 in the file"),
]
EXCEPTIONS = [("noun", "children", "child"), ("verb", "ran", "run"), ("adj", "better", "good well")]
# good and drab, the second word of its synset, are opposites, and so are film and a phrase.
ANTONYMS = {"00000006": ("00000010", "0102"), "00000010": ("00000006", "0201"), "00000001": ("00000002", "0104")}
# film's second noun sense is the more frequent one.
ORDER = {("n", "film"): ["00000002", "00000001"]}
FILES = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}


def write_tables(folder: Path) -> Path:
    folder.mkdir()
    rows = ""
    for pos, offset, words, gloss in SYNSETS:
        target, numbers = ANTONYMS.get(offset, ("", ""))
        rows += f"{pos}\t{offset}\t{words}\t\t{target and f'{target}{pos}:{numbers}'}\t{gloss}\n"
    (folder / "synsets.tsv").write_text("pos\toffset\tlemmas\thypernyms\tantonyms\tgloss\n" + rows)
    rows = "".join("\t".join(row) + "\n" for row in EXCEPTIONS)
    (folder / "exceptions.tsv").write_text("pos\tinflected\tlemmas\n" + rows)
    return folder


def write_database(folder: Path) -> Path:
    """As in wndb(5WN): licence lines, hexadecimal counts, markers after adjectives, pointers, two blanks at the end."""
    folder.mkdir(parents=True)
    licence = "  1 This software and database is being provided to you | by Princeton\n"
    for name in sorted(set(FILES.values())):
        data, index = [], {}
        for pos, offset, words, gloss in SYNSETS:
            if FILES[pos] != name:
                continue
            names = [word.replace(" ", "_") + ("(p)" if word == "full" else "") for word in words.split("|")]
            listed = " ".join(f"{word} 0" for word in names)
            target, numbers = ANTONYMS.get(offset, ("", ""))
            pointers = "001 @ 00000001 n 0000" if not target else f"002 @ 00000001 n 0000 ! {target} {pos} {numbers}"
            data.append(f"{offset} 00 {pos} {len(names):02x} {listed} {pointers} | {gloss}  \n")
            for word in names:
                index.setdefault(word.removesuffix("(p)").lower(), []).append(offset)
        lines = []
        for word, found in sorted(index.items()):
            offsets = ORDER.get((name[0], word), found)
            assert sorted(offsets) == sorted(found)
            count = len(offsets)
            lines.append(f"{word} {name[0]} {count} 2 @ ~ {count} 1 {' '.join(offsets)}  \n")
        (folder / f"data.{name}").write_text(licence + "".join(data))
        (folder / f"index.{name}").write_text(licence + "".join(lines))
        irregular = "".join(f"{form} {bases}\n" for pos, form, bases in EXCEPTIONS if pos == name)
        (folder / f"{name}.exc").write_text(irregular)
    return folder


def write_archive(path: Path) -> Path:
    folder = write_database(path.parent / "unpacked")
    with zipfile.ZipFile(path, "w") as file:
        for source in sorted(folder.iterdir()):
            file.write(source, f"wordnet/{source.name}")
    return path


@pytest.fixture(params=["tables", "database", "archive"])
def wordnet(request: pytest.FixtureRequest, tmp_path: Path) -> WordNet:
    if request.param == "archive":
        return WordNet.read(write_archive(tmp_path / "wordnet.zip"))
    return WordNet.read({"tables": write_tables, "database": write_database}[request.param](tmp_path / "wn"))


NOUNS = ["movie", "picture", "pic", "flick"]


def test_synonyms_of_all_parts_of_speech(wordnet: WordNet) -> None:
    assert wordnet.synonyms("film") == [*NOUNS, "shoot", "take"]
    assert wordnet.synonyms("good") == ["full", "honest", "well"]
    assert wordnet.synonyms("unknown") == wordnet.synonyms("photographic film") == wordnet.synonyms("") == []


def test_words_of_letters_alone_in_the_case_of_the_word(wordnet: WordNet) -> None:
    assert wordnet.synonyms("child") == ["kid", "Tyke"]
    assert wordnet.synonyms("Film", tag="VERB") == ["Shoot", "Take"]
    assert wordnet.synonyms("FILM", tag="VERB") == ["SHOOT", "TAKE"]


def test_inflected_words_are_found_by_their_base_forms(wordnet: WordNet) -> None:
    assert sorted(wordnet.synonyms("films")) == sorted([*NOUNS, "film", "shoot", "take"])
    assert wordnet.synonyms("filming") == ["film", "shoot", "take"]
    assert wordnet.synonyms("children") == ["child", "kid", "Tyke"]
    assert wordnet.synonyms("ran") == ["run", "scat", "go"]
    # Its own noun, and by the exceptions the adjective, which take the place of the rules.
    assert wordnet.synonyms("better") == ["bettor", "good", "full", "honest"]
    assert wordnet.synonyms("childrens") == []


def test_pairs_of_antonyms(wordnet: WordNet) -> None:
    assert wordnet.antonym_pairs("ADJ") == (("good", "drab"), ("drab", "good"))
    assert wordnet.antonym_pairs("NOUN") == wordnet.antonym_pairs("VERB") == ()  # a phrase is left out
    with pytest.raises(KeyError):
        wordnet.antonym_pairs("DET")


def test_tables_without_antonyms(tmp_path: Path) -> None:
    folder = write_tables(tmp_path / "wn")
    lines = (folder / "synsets.tsv").read_text().splitlines()
    (folder / "synsets.tsv").write_text("".join("\t".join(line.split("\t")[::2][:2]) + "\n" for line in lines))
    wordnet = WordNet.read(folder)
    assert wordnet.antonym_pairs("ADJ") == ()
    assert wordnet.synonyms("child") == ["kid", "Tyke"]


def test_a_large_synset(wordnet: WordNet) -> None:
    assert wordnet.synonyms("a") == list("bcdefghijklmnop")


def test_one_part_of_speech(wordnet: WordNet) -> None:
    assert wordnet.synonyms("films", tag="VERB") == ["film", "shoot", "take"]
    assert wordnet.synonyms("good", tag="ADJ") == ["full", "honest"]
    assert wordnet.synonyms("good", tag="ADV") == ["well"]
    assert wordnet.synonyms("good", tag="NOUN") == wordnet.synonyms("good", tag="DET") == []
    with pytest.raises(ValueError, match="NOUN"):
        wordnet.synonyms("good", tag="noun")


def test_a_changed_answer_does_not_change_the_next(wordnet: WordNet) -> None:
    wordnet.synonyms("good").clear()
    assert wordnet.synonyms("good") == ["full", "honest", "well"]


def test_the_database_knows_the_order_of_senses(tmp_path: Path) -> None:
    database = WordNet.read(write_database(tmp_path / "database"))
    tables = WordNet.read(write_tables(tmp_path / "tables"))
    assert database._senses["n"]["film"] == [("movie", "film", "picture", "pic", "flick"), ("film",)]
    assert tables._senses["n"]["film"] == database._senses["n"]["film"][::-1]
    assert "order of the rows" in tables.source
    assert "order" not in database.source
    assert str(tmp_path / "database") in database.source


@pytest.mark.skipif(importlib.util.find_spec("lemminflect") is None, reason="lemminflect is not installed")
def test_the_inflection_of_the_word(wordnet: WordNet) -> None:
    assert wordnet.synonyms("films", inflected=True) == ["movies", "pictures", "pics", "flicks", "shoots", "takes"]
    assert wordnet.synonyms("Children", inflected=True) == ["Kids", "Tykes"]
    assert wordnet.synonyms("ran", inflected=True) == ["scatted", "went"]
    assert wordnet.synonyms("filming", inflected=True) == ["shooting", "taking"]
    assert wordnet.synonyms("film", inflected=True) == wordnet.synonyms("film")
    # "honester" is what the rules for unknown words make; the noun is not inflected at all.
    assert wordnet.synonyms("better", inflected=True) == ["bettor", "fuller"]


def test_inflection_without_lemminflect(wordnet: WordNet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lemminflect", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert wordnet.synonyms("film", inflected=True) == wordnet.synonyms("film")
    with pytest.raises(UserError, match="pip install lemminflect"):
        wordnet.synonyms("films", inflected=True)


class TestMistakes:
    def refused(self, path: Path) -> str:
        with pytest.raises(UserError) as caught:
            WordNet.read(path)
        return str(caught.value)

    def test_a_folder_without_it(self, tmp_path: Path) -> None:
        assert "data.noun" in self.refused(tmp_path)

    @pytest.mark.parametrize(
        ("pointer", "message"),
        [
            ("00000099a:0101", "no word 01 in the synset 00000099a"),
            ("00000010a:0109", "no word 09 in the synset 00000010a"),
            ("00000010a:0100", "no word 00 in the synset 00000010a"),
            ("00000010", "synsets.tsv:7: '00000010' is not an antonym"),
        ],
    )
    def test_an_antonym_that_is_not_there(self, tmp_path: Path, pointer: str, message: str) -> None:
        folder = write_tables(tmp_path / "wn")
        text = (folder / "synsets.tsv").read_text()
        (folder / "synsets.tsv").write_text(text.replace("00000010a:0102", pointer))
        assert message in self.refused(folder)

    def test_a_missing_file(self, tmp_path: Path) -> None:
        folder = write_database(tmp_path / "wn")
        (folder / "index.verb").unlink()
        assert f"cannot read {folder / 'index.verb'}" in self.refused(folder)

    def test_an_archive_that_is_none(self, tmp_path: Path) -> None:
        (tmp_path / "wordnet.zip").write_text("no")
        assert "wordnet.zip" in self.refused(tmp_path / "wordnet.zip")

    def test_an_archive_without_a_file(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "wordnet.zip", "w") as file:
            file.writestr("wordnet/data.noun", "")
        assert "index.noun" in self.refused(tmp_path / "wordnet.zip")

    @pytest.mark.parametrize(
        ("name", "line"),
        [
            ("data.noun", "00000010 00 n zz film 0 000 | gloss"),
            ("data.noun", "00000010 00 n"),
            ("index.noun", "films n 1 1 @ 1 1 00000099"),
            ("index.noun", "films n 1 x @ 1 1 00000001"),
            ("noun.exc", "alone"),
        ],
    )
    def test_a_damaged_line(self, tmp_path: Path, name: str, line: str) -> None:
        folder = write_database(tmp_path / "wn")
        whole = (folder / name).read_text()
        (folder / name).write_text(f"{whole}{line}\n")
        assert self.refused(folder).startswith(f"{folder / name}:{whole.count(chr(10)) + 1}:")

    @pytest.mark.parametrize(("name", "line"), [("synsets", "x\t1\tfilm\t\t\t"), ("exceptions", "nuon\tfilms\tfilm")])
    def test_a_damaged_row(self, tmp_path: Path, name: str, line: str) -> None:
        folder = write_tables(tmp_path / "wn")
        whole = (folder / f"{name}.tsv").read_text()
        (folder / f"{name}.tsv").write_text(f"{whole}{line}\n")
        assert self.refused(folder).startswith(f"{folder / name}.tsv:{whole.count(chr(10)) + 1}:")


@pytest.mark.skipif(not os.environ.get("HOLDFAST_DATA"), reason="HOLDFAST_DATA does not name the data folder")
class TestTheRealOne:
    @pytest.fixture
    def real(self) -> WordNet:
        return WordNet.read(Path(os.environ["HOLDFAST_DATA"]) / "wordnet")

    def test_words(self, real: WordNet) -> None:
        assert set(real.synonyms("films", tag="NOUN")) == {
            *("movie", "film", "picture", "pic", "flick", "cinema", "celluloid")
        }
        assert set(real.synonyms("children")) == {
            *("child", "kid", "youngster", "minor", "shaver", "nipper", "tiddler", "tike", "tyke", "fry"),
            *("nestling", "baby"),
        }
        assert {"improve", "bettor", "good", "full"} <= set(real.synonyms("better"))
        assert {"run", "operate", "flow"} <= set(real.synonyms("ran")) <= set(real.synonyms("ran", tag="VERB"))

    @pytest.mark.skipif(not Path("/usr/share/wordnet/data.noun").exists(), reason="no WordNet in /usr/share/wordnet")
    def test_the_same_words_from_the_database_files(self, real: WordNet) -> None:
        database = WordNet.read(Path("/usr/share/wordnet"))
        for word in ("films", "better", "children", "ran", "quickly", "good", "axes", "leaves", "Paris"):
            assert {w.casefold() for w in real.synonyms(word)} == {w.casefold() for w in database.synonyms(word)}


@pytest.mark.parametrize(
    ("pos", "forms"),
    [
        ("n", "dogs:dog glasses:glass wolves:wolf boxes:box waltzes:waltz churches:church dishes:dish women:woman"),
        ("n", "cities:city"),
        ("v", "runs:run studies:study makes:make goes:go loved:love jumped:jump making:make jumping:jump"),
        ("a", "older:old oldest:old nicer:nice nicest:nice"),
    ],
)
def test_every_rule_of_morphy_finds_its_base_form(pos: str, forms: str) -> None:
    pairs = [pair.split(":") for pair in forms.split()]
    senses: dict[str, dict[str, list[tuple[str, ...]]]] = {part: {} for part in "nvar"}
    senses[pos] = {base: [(base,)] for _, base in pairs}
    wordnet = WordNet(senses, {part: {} for part in "nvar"}, source="here")
    assert [wordnet.bases(form, pos) for form, _ in pairs] == [[base] for _, base in pairs]
