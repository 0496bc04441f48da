"""Who the programs of a secured mode are, and whom they believe, by the files of ../credentials: an item of a map of aiocoap."""

from pathlib import Path


def item(mode, directory, own):
    if mode == "oscore":
        return {"oscore": {"basedir": f"{directory}/oscore-{own}"}}
    identity, _, key = Path(directory, "psk").read_text().strip().partition(":")
    return {"dtls": {"psk": key.encode(), "client-identity": identity.encode()}}
