"""Which store an engine joins, and with which token.

Who may call an inference server's init_weight_transfer_engine must not be able to read its files, nor
have its token sent elsewhere: a request brings a token of its own, or names no store but the
engine's.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from .._errors import InvalidArgument

STORE = "WEIGHTBRIDGE_STORE"
TOKEN_FILE = "WEIGHTBRIDGE_TOKEN_FILE"


def credentials(
    store: str, token: str, environment: Mapping[str, str] = os.environ
) -> tuple[str, str, str]:
    """Store, token and token file, of a request and the engine's environment."""
    own = environment.get(STORE, "")
    file = environment.get(TOKEN_FILE, "")
    if not (store or own):
        raise InvalidArgument(f"init_info needs the job's store, or the engine {STORE}")
    if token:
        return store or own, token, ""
    if not file:
        raise InvalidArgument(f"init_info needs the job's token, or the engine {TOKEN_FILE}")
    if store and store != own:
        raise InvalidArgument(
            f"the engine's {TOKEN_FILE} is for its {STORE} only; a request that names another store "
            f"({store}) brings a token"
        )
    return own, "", file
