/* Addresses of IPv4 and IPv6. */

#include <arpa/inet.h>
#include <string.h>
#include <coap3/coap.h>

/* Sets an address in numbers. Returns 0 if it is none. */
static int set_host(coap_address_t *address, const char *host, uint16_t port) {
  coap_address_init(address);
  if (inet_pton(AF_INET6, host, &address->addr.sin6.sin6_addr) == 1) {
    address->addr.sin6.sin6_family = AF_INET6;
    address->size = sizeof(address->addr.sin6);
  } else if (inet_pton(AF_INET, host, &address->addr.sin.sin_addr) == 1) {
    address->addr.sin.sin_family = AF_INET;
    address->size = sizeof(address->addr.sin);
  } else {
    return 0;
  }
  coap_address_set_port(address, port);
  return 1;
}
