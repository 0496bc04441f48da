"""conche: a CoAP stack in Rust with selectable congestion control.

- `conche.aio`: CoAP client and server for asyncio.
"""

from conche._conche import __version__

__all__ = ["__version__"]
