"""Credentials and trust of a secured mode, from the files of ../credentials, as an item of aiocoap's map."""

from pathlib import Path


def item(mode, directory, own):
    if mode == "oscore":
        return {"oscore": {"basedir": f"{directory}/oscore-{own}"}}
    identity, _, key = Path(directory, "psk").read_text().strip().partition(":")
    return {"dtls": {"psk": key.encode(), "client-identity": identity.encode()}}
