"""Numbers of CoAP's registries: codes, Content-Formats and options."""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """A method, or a response code (RFC 7252 §12.1); `str(code)` is `"2.05"`.

    `Code(69)` is `Code.CONTENT`. Any byte is a code, also without a name.
    """

    EMPTY = 0
    GET = 1
    POST = 2
    PUT = 3
    DELETE = 4
    FETCH = 5
    PATCH = 6
    IPATCH = 7
    CREATED = 65
    DELETED = 66
    VALID = 67
    CHANGED = 68
    CONTENT = 69
    CONTINUE = 95
    BAD_REQUEST = 128
    UNAUTHORIZED = 129
    BAD_OPTION = 130
    FORBIDDEN = 131
    NOT_FOUND = 132
    METHOD_NOT_ALLOWED = 133
    NOT_ACCEPTABLE = 134
    REQUEST_ENTITY_INCOMPLETE = 136
    CONFLICT = 137
    PRECONDITION_FAILED = 140
    REQUEST_ENTITY_TOO_LARGE = 141
    UNSUPPORTED_CONTENT_FORMAT = 143
    UNPROCESSABLE_ENTITY = 150
    TOO_MANY_REQUESTS = 157
    INTERNAL_SERVER_ERROR = 160
    NOT_IMPLEMENTED = 161
    BAD_GATEWAY = 162
    SERVICE_UNAVAILABLE = 163
    GATEWAY_TIMEOUT = 164
    PROXYING_NOT_SUPPORTED = 165
    HOP_LIMIT_REACHED = 168

    @classmethod
    def _missing_(cls, value: object) -> Code | None:
        if not isinstance(value, int) or not 0 <= value <= 255:
            return None
        member = int.__new__(cls, value)
        member._name_ = f"CODE_{value >> 5}_{value & 31:02}"
        member._value_ = value
        return member

    @property
    def is_success(self) -> bool:
        """Whether it is 2.xx."""
        return self >> 5 == 2

    def __str__(self) -> str:
        return f"{self >> 5}.{self & 31:02}"


class ContentFormat(IntEnum):
    """Common Content-Formats (RFC 7252 §12.3); everywhere any number from 0 to 65 535 will do."""

    TEXT_PLAIN = 0
    COSE_ENCRYPT0 = 16
    COSE_SIGN1 = 18
    LINK_FORMAT = 40
    XML = 41
    OCTET_STREAM = 42
    EXI = 47
    JSON = 50
    JSON_PATCH = 51
    MERGE_PATCH = 52
    CBOR = 60
    CWT = 61
    CBOR_SEQ = 63
    SENML_JSON = 110
    SENML_CBOR = 112
    PROBLEM_DETAILS = 257
    LWM2M_TLV = 11542
    LWM2M_JSON = 11543
    LWM2M_CBOR = 11544


class OptionNumber(IntEnum):
    """Option numbers (RFC 7252 §12.2); everywhere any number from 0 to 65 535 will do."""

    IF_MATCH = 1
    URI_HOST = 3
    ETAG = 4
    IF_NONE_MATCH = 5
    OBSERVE = 6
    URI_PORT = 7
    LOCATION_PATH = 8
    OSCORE = 9
    URI_PATH = 11
    CONTENT_FORMAT = 12
    MAX_AGE = 14
    URI_QUERY = 15
    HOP_LIMIT = 16
    ACCEPT = 17
    Q_BLOCK1 = 19
    LOCATION_QUERY = 20
    BLOCK2 = 23
    BLOCK1 = 27
    SIZE2 = 28
    Q_BLOCK2 = 31
    PROXY_URI = 35
    PROXY_SCHEME = 39
    SIZE1 = 60
    ECHO = 252
    NO_RESPONSE = 258
    REQUEST_TAG = 292
