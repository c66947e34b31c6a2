"""Prompts: vectors are those of sentence-transformers with the same prompt, and none is dropped in silence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import AutoTokenizer

from architectures import save_transformer
from holdfast.adversary.gradient_encoder import GradientEncoder, recovered_texts
from holdfast.cli import main
from holdfast.encoder import Encoder
from holdfast.encoding import encode_sentences
from holdfast.errors import UserError
from holdfast.input_limits import Cuts, limited_to
from holdfast.models import load_sentence_transformer
from holdfast.objectives.anchored import Anchored
from holdfast.text_prompts import (
    PromptOptions,
    RolePromptOptions,
    choose_prompts,
    preprocess_texts,
    prompt_of,
    prompt_protocol,
    refuse_prompts,
    side_of,
    tells_sides,
)
from holdfast.user_functions import VectorFunction

TEXTS = ["the man runs", "a dog sleeps in the park", "the woman sings", "child plays on the big red bed"]
NO_CHOICE = (
    "prompted has prompts and no default: query 'the old ', passage 'under '; choose one with --prompt-name NAME, "
    "--prompt TEXT or --no-prompt"
)


def load(folder: Path, **options: str | bool) -> SentenceTransformer:
    return load_sentence_transformer(str(folder), device="cpu", prompts=RolePromptOptions(**options))


def agree(vectors: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(vectors, expected, atol=1e-5)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize(
    ("options", "encode"),
    [
        ({"prompt": "a big "}, {"prompt": "a big "}),
        ({"prompt_name": "passage"}, {"prompt_name": "passage"}),
        ({"no_prompt": True}, {"prompt": ""}),
        ({"prompt": ""}, {"prompt": ""}),
    ],
)
def test_vectors_are_those_of_encode_with_the_prompt(
    prompted: Callable[..., Path], include: bool, options: dict, encode: dict
) -> None:
    folder = prompted("query", include=include)
    expected = SentenceTransformer(str(folder), device="cpu").encode(TEXTS, **encode)
    for role in (None, "query", "document"):  # a choice for all texts is also one for the sides
        agree(encode_sentences(load(folder, **options), TEXTS, role=role), expected)
    default = encode_sentences(load(folder), TEXTS)
    agree(default, SentenceTransformer(str(folder), device="cpu").encode(TEXTS))
    assert np.abs(default - expected).max() > 1e-2  # the prompts make a difference


def test_the_first_token_behind_a_prompt_is_no_shortened_layer(prompted: Callable[..., Path], tmp_path: Path) -> None:
    """With "cls" and ``include_prompt=False`` the vector is that of the first token of the text."""
    model = SentenceTransformer(str(prompted("query")), device="cpu")
    model[1] = Pooling(16, "cls", include_prompt=False)
    model.save(str(tmp_path / "first"))
    model = load(tmp_path / "first")
    encoder = Encoder(model)
    with torch.no_grad():
        vectors = encoder.encode(encoder.tokenise(TEXTS))
    np.testing.assert_allclose(vectors, encode_sentences(model, TEXTS), atol=1e-5)
    with_prompt = SentenceTransformer(str(tmp_path / "first"), device="cpu")
    with_prompt[1] = Pooling(16, "cls")
    assert np.abs(with_prompt.encode(TEXTS) - vectors.numpy()).max() > 0.1


TEMPLATE = "{% for message in messages %}<bos>{{ message['content'] }}{% endfor %}"


def test_a_raw_decoder_reads_its_texts_without_the_chat_template(tmp_path: Path) -> None:
    folder = save_transformer(tmp_path / "chat", "qwen3")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    in_template = SentenceTransformer(str(folder), device="cpu")
    texts = ["the man runs", "a dog"]
    assert in_template.tokenizer.decode(in_template.preprocess(texts)["input_ids"][0]) == "<bos>the man runs"
    model = load(folder)
    features = preprocess_texts(model, texts)
    assert recovered_texts(model, features) == texts
    assert model.tokenizer.decode(features["input_ids"][0]) == "the man runs<eos>"
    model.save(str(tmp_path / "plain"))
    again = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    np.testing.assert_allclose(again.encode(texts), encode_sentences(model, texts), atol=1e-5)
    # One that is in use with its template keeps it, and no method changes texts inside it.
    in_template.save(str(tmp_path / "template"))
    used = load(tmp_path / "template")
    np.testing.assert_allclose(encode_sentences(used, texts), in_template.encode(texts), atol=1e-5)
    with pytest.raises(UserError, match="the noise in training cannot separate a text from the chat template"):
        Anchored(used)
    with pytest.raises(UserError, match="an attack with gradients cannot separate a text from the chat template"):
        GradientEncoder(Encoder(used), torch.nn.Identity(), lambda z, _: z.sum())


def test_pooling_without_the_prompt_differs(prompted: Callable[..., Path]) -> None:
    with_it, without = (encode_sentences(load(prompted("query", include=each)), TEXTS) for each in (True, False))
    assert np.abs(with_it - without).max() > 1e-2


def test_sides_are_encoded_as_queries_and_documents(prompted: Callable[..., Path]) -> None:
    plain = SentenceTransformer(str(prompted()), device="cpu")
    model = load_sentence_transformer(str(prompted()), device="cpu", prompts=RolePromptOptions(), sides_only=True)
    queries, documents = (encode_sentences(model, TEXTS, role=role) for role in ("query", "document"))
    agree(queries, plain.encode_query(TEXTS))
    agree(documents, plain.encode(TEXTS, prompt_name="passage"))
    assert np.abs(queries - documents).max() > 1e-2
    named = load(prompted(), prompt="a ", document_prompt_name="query")
    agree(encode_sentences(named, TEXTS, role="document"), plain.encode(TEXTS, prompt_name="query"))
    agree(encode_sentences(named, TEXTS, role="query"), plain.encode(TEXTS, prompt="a "))
    of_query = load(prompted(), query_prompt="a ")
    agree(encode_sentences(of_query, TEXTS), plain.encode(TEXTS, prompt="a "))
    agree(encode_sentences(of_query, TEXTS, role="document"), plain.encode(TEXTS, prompt_name="passage"))
    both = {"query": "the old ", "document": "under ", "passage": "a "}
    model, plain = load(prompted("query", prompts=both)), SentenceTransformer(str(prompted("query", prompts=both)))
    agree(encode_sentences(model, TEXTS, role="query"), plain.encode_query(TEXTS))
    agree(encode_sentences(model, TEXTS, role="document"), plain.encode_document(TEXTS))
    one = {"query": "the old "}
    model, plain = load(prompted("query", prompts=one)), SentenceTransformer(str(prompted("query", prompts=one)))
    agree(encode_sentences(model, TEXTS, role="document"), plain.encode_document(TEXTS))
    agree(encode_sentences(model, TEXTS, role="document"), plain.encode(TEXTS, prompt=""))


def test_a_router_gets_the_side(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> None:
    routes = {name: str(make_masked_lm(tmp_path / name, seed=seed)) for seed, name in enumerate(("query", "document"))}
    modules = {name: [Transformer(path), Pooling(16, "mean")] for name, path in routes.items()}
    router = Router(modules, default_route=None, allow_empty_key=False)
    prompts = {"query": "the old ", "document": "under "}
    SentenceTransformer(modules=[router], prompts=prompts, device="cpu").save(str(tmp_path / "router"))
    plain = SentenceTransformer(str(tmp_path / "router"), device="cpu")
    with pytest.raises(UserError, match="has no default_route"):
        load(tmp_path / "router")
    model = load_sentence_transformer(
        str(tmp_path / "router"), device="cpu", prompts=PromptOptions(no_prompt=True), sides_only=True
    )
    assert tells_sides(model)
    agree(encode_sentences(model, TEXTS, role="query"), plain.encode_query(TEXTS, prompt=""))
    choose_prompts(model, PromptOptions(), sides_only=True)
    queries, documents = (encode_sentences(model, TEXTS, role=role) for role in ("query", "document"))
    agree(queries, plain.encode_query(TEXTS))
    agree(documents, plain.encode_document(TEXTS))
    assert np.abs(queries - documents).max() > 1e-2


def test_each_route_of_a_router_keeps_its_limit(tmp_path: Path, make_masked_lm: Callable[..., Path]) -> None:
    modules: dict[str, list[torch.nn.Module]] = {}
    for name, limit in (("query", 4), ("document", 9)):
        transformer = Transformer(str(make_masked_lm(tmp_path / name, seed=limit)))
        transformer.max_seq_length = limit
        modules[name] = [transformer, Pooling(16, "mean")]
    SentenceTransformer(modules=[Router(modules, default_route="query", allow_empty_key=False)], device="cpu").save(
        str(tmp_path / "router")
    )
    plain = SentenceTransformer(str(tmp_path / "router"), device="cpu")
    model = load_sentence_transformer(str(tmp_path / "router"), device="cpu")
    texts = ["the old man sleeps on the big red bed in the house"]
    for _ in range(2):
        agree(encode_sentences(model, texts, role="query"), plain.encode_query(texts))
        agree(encode_sentences(model, texts, role="document"), plain.encode_document(texts))
        with limited_to(model, 3):
            pass


class TwiceForQueries(torch.nn.Module):
    """A module that is told the side by a keyword, as modules of one's own can be."""

    forward_kwargs = frozenset({"task"})

    def forward(self, features: dict[str, torch.Tensor], task: str | None = None) -> dict[str, torch.Tensor]:
        return {**features, "sentence_embedding": features["sentence_embedding"] * (1 + (task == "query"))}


def test_modules_are_told_the_side(prompted: Callable[..., Path]) -> None:
    model = load(prompted(prompts={}))
    model.append(TwiceForQueries())
    agree(encode_sentences(model, TEXTS, role="query"), model.encode_query(TEXTS))
    agree(encode_sentences(model, TEXTS, role="query"), 2 * encode_sentences(model, TEXTS))


def test_no_choice_is_one_line(prompted: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    prompted().rename(prompted().parent / "prompted")
    monkeypatch.chdir(prompted().parent)
    with pytest.raises(UserError) as raised:
        load(Path("prompted"))
    assert str(raised.value) == NO_CHOICE
    not_chosen = load_sentence_transformer("prompted", device="cpu")
    with pytest.raises(UserError, match="has prompts and no default"):
        encode_sentences(not_chosen, TEXTS)
    agree(encode_sentences(not_chosen, TEXTS, role="query"), not_chosen.encode_query(TEXTS))


def test_prompts_for_other_things_are_no_sides(prompted: Callable[..., Path]) -> None:
    folder = prompted(prompts={"sts": "the ", "cluster": "a " * 60})
    with pytest.raises(UserError, match=r"no default: cluster 'a a .*…', sts 'the '; choose"):
        load_sentence_transformer(str(folder), device="cpu", prompts=PromptOptions(), sides_only=True)
    model = load(folder, prompt_name="sts")
    assert side_of(model, "query") is None
    assert prompt_of(model, "document") == "the "


def test_a_model_without_prompts_needs_no_choice(prompted: Callable[..., Path]) -> None:
    model = load(prompted(prompts={}))
    assert model.prompts == {"query": "", "document": ""}
    assert not tells_sides(model)
    assert (prompt_of(model), prompt_of(model, "query"), prompt_protocol(model)) == (None, None, {})
    agree(encode_sentences(model, TEXTS), SentenceTransformer(str(prompted(prompts={})), device="cpu").encode(TEXTS))


def test_roles_count_in_similarity_only_if_a_side_was_named(prompted: Callable[..., Path]) -> None:
    model = load(prompted("query"))
    assert (side_of(model, "query"), side_of(model, "query", named=True)) == ("query", None)
    choose_prompts(model, RolePromptOptions(document_prompt="a "))
    assert side_of(model, "document", named=True) == "document"
    assert side_of(VectorFunction(lambda texts: [[1.0]] * len(texts), name="f"), "query") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt_name": "pasage"}, r"--prompt-name: .* no prompt named 'pasage' \(did you mean 'passage'\?\): its"),
        ({"document_prompt_name": "x"}, r"--document-prompt-name: .* its prompts are query, passage"),
        ({"prompt": "a", "no_prompt": True}, "--prompt and --no-prompt exclude each other"),
        ({"query_prompt": "a", "query_prompt_name": "query"}, "--query-prompt and --query-prompt-name exclude"),
    ],
)
def test_mistakes(prompted: Callable[..., Path], options: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load(prompted(), **options)


def test_a_function_takes_no_prompt() -> None:
    refuse_prompts(RolePromptOptions(), "call:m:f")
    with pytest.raises(UserError, match=r"--no-prompt is for a model, and call:m:f is a function"):
        refuse_prompts(RolePromptOptions(no_prompt=True), "call:m:f")


def test_the_choice_is_not_exported(prompted: Callable[..., Path], tmp_path: Path) -> None:
    model = load(prompted(), prompt_name="passage", document_prompt="a ")
    model.save(str(tmp_path / "again"))
    for name in ("config_sentence_transformers.json", "modules.json"):
        assert json.loads((tmp_path / "again" / name).read_text()) == json.loads((prompted() / name).read_text())


def test_cut_texts_are_counted_with_the_prompt(prompted: Callable[..., Path]) -> None:
    text = "dog " * 60  # with [CLS] and [SEP] 62 of 64 tokens
    counts = []
    for prompt in ("a ", "a a a "):
        cuts = Cuts()
        encode_sentences(load(prompted(), prompt=prompt), [text], cuts=cuts)
        counts.append(cuts.texts)
    assert counts == [0, 1]


def stsb(folder: Path) -> Path:
    (folder / "stsb").mkdir(parents=True)
    rows = ["sentence1\tsentence2\tscore"]
    rows += [f"{a}\t{b}\t{score}" for a, b, score in zip(TEXTS, TEXTS[::-1], (5.0, 1.0, 3.0, 0.0), strict=True)]
    (folder / "stsb" / "test.tsv").write_text("\n".join(rows) + "\n")
    return folder


def test_evaluate_gives_the_similarity_of_encode(
    prompted: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = stsb(tmp_path / "data")
    words = ["evaluate", str(prompted()), "--tasks", "stsb", "--data", str(data)]
    assert main([*words, "--prompt-name", "passage", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    vectors = SentenceTransformer(str(prompted()), device="cpu").encode(
        TEXTS, prompt_name="passage", normalize_embeddings=True
    )
    agree(result["results"][0]["items"]["similarity"], (vectors * vectors[::-1]).sum(axis=1))
    assert result["protocol"]["prompt"] == "under "
    capsys.readouterr()  # the progress of sentence-transformers
    assert main(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "query 'the old ', passage 'under '; choose one with --prompt-name" in captured.err
    assert captured.err.count("\n") == 1
    assert main([*words, "--prompt", "a", "--no-prompt"]) == 2
    assert "--prompt and --no-prompt exclude each other" in capsys.readouterr().err
