"""The options of an HTTP endpoint in place of a model, shared by the settings of several verbs.

This module imports nothing heavy, since settings classes are made from its options.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Annotated

from holdfast.errors import UserError
from holdfast.model_lookup import ENDPOINT
from holdfast.settings import Folder, Spelling

KEY = "HOLDFAST_ENDPOINT_KEY"
"""Default name of the environment variable with the key."""
_SECRETS = re.compile(r"://[^/?#]*@|[?&][^=&]*(key|token|secret|sig|password)[^=&]*=", re.IGNORECASE)
"""A user in a URL, or a parameter with a name like those of keys."""


@dataclass(frozen=True, kw_only=True)
class EndpointOptions:
    """The options of an endpoint; the ``model`` of the settings is then ``endpoint:NAME``.

    Attributes:
        endpoint: In place of MODEL, the URL of an OpenAI-style endpoint of embeddings, such as https://host/v1
            (/embeddings is added).
        endpoint_model: Name of the model there.
        endpoint_key: Environment variable that holds the key, if the endpoint needs one.
        endpoint_characters: Largest number of characters in one request; a longer text is sent alone. The largest
            number of texts is --call-batch.
        endpoint_rate: Largest number of requests per minute; None: no limit.
        endpoint_timeout: Seconds to wait for an answer.
        endpoint_retries: Repeat a request that fails (429, 5xx, no or a damaged answer) so often, after 1, 2, 4, ...
            seconds or as long as Retry-After says.
        endpoint_cache: Folder of the answers, from which no text is sent again; None: $HOLDFAST_CACHE/endpoints, else
            ~/.cache/holdfast/endpoints.
    """

    endpoint: Annotated[str | None, Spelling(metavar="URL")] = None
    endpoint_model: Annotated[str | None, Spelling(metavar="NAME")] = None
    endpoint_key: Annotated[str, Spelling(metavar="VARIABLE")] = KEY
    endpoint_characters: int = 100_000
    endpoint_rate: float | None = None
    endpoint_timeout: float = 60.0
    endpoint_retries: int = 8
    endpoint_cache: Folder | None = None

    def __post_init__(self) -> None:
        """Name the model after the endpoint.

        Raises:
            UserError: there is no model, a model and an endpoint, or an endpoint without the name of its model.
        """
        model = getattr(self, "model", "")
        if self.endpoint is None:
            if self.endpoint_model is not None:
                raise UserError("--endpoint-model names a model of an endpoint: add --endpoint URL")
            if not model:
                raise UserError("missing: 'model' (on the command line or in --config), or --endpoint URL in its place")
            return
        if not self.endpoint_model:
            raise UserError(f"--endpoint {endpoint_url(self.endpoint)} needs the name of its model: --endpoint-model")
        if _SECRETS.search(self.endpoint):
            raise UserError(
                f"--endpoint {endpoint_url(self.endpoint)} holds a user or a key, which would be in every result: put "
                f"the key into the environment variable {self.endpoint_key}"
            )
        named = f"{ENDPOINT}{self.endpoint_model}"
        if model not in ("", named):
            raise UserError(f"give the model {model} or --endpoint, not both")
        object.__setattr__(self, "model", named)


def endpoint_url(url: str) -> str:
    """Return the URL of an endpoint as it is shown and stored: without a user, a password and a query."""
    before, slashes, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    path = path.partition("?")[0].partition("#")[0]
    return f"{before}{slashes}{host.rpartition('@')[2].partition('?')[0]}{slash}{path}" if slashes else url[:100]


def endpoint_address(url: str) -> str:
    """Return what tells endpoints apart: the shown URL, and the hash of a query, which is sent but not shown."""
    query = url.partition("#")[0].partition("?")[2]
    digest = hashlib.sha256(query.encode()).hexdigest()[:16]
    return f"{endpoint_url(url)}?{digest}" if query else endpoint_url(url)
