/* libcoap server of `cargo xtask bench-peers`; arguments and resources: ../README.md. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <coap3/coap.h>

#define SMALL 60
#define LARGE 65536

static uint8_t payload[LARGE];

static void get_small(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request,
                      const coap_string_t *query, coap_pdu_t *response) {
  (void)resource, (void)session, (void)request, (void)query;
  coap_pdu_set_code(response, COAP_RESPONSE_CODE_CONTENT);
  coap_add_data(response, SMALL, payload);
}

static void get_large(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request,
                      const coap_string_t *query, coap_pdu_t *response) {
  coap_pdu_set_code(response, COAP_RESPONSE_CODE_CONTENT);
  coap_add_data_large_response(resource, session, request, response, query, COAP_MEDIATYPE_APPLICATION_OCTET_STREAM, -1, 0,
                               sizeof(payload), payload, NULL, NULL);
}

static coap_resource_t *add(coap_context_t *context, const char *path, int flags, coap_method_handler_t handler) {
  coap_resource_t *resource = coap_resource_init(coap_make_str_const(path), flags);
  coap_register_handler(resource, COAP_REQUEST_GET, handler);
  coap_add_resource(context, resource);
  return resource;
}

int main(int count, char **arguments) {
  int port = count > 1 ? atoi(arguments[1]) : 5683, interval = count > 2 ? atoi(arguments[2]) : 0;
  memset(payload, 'x', sizeof(payload));
  coap_startup();
  coap_set_log_level(LOG_ERR);
  coap_context_t *context = coap_new_context(NULL);
  coap_context_set_block_mode(context, COAP_BLOCK_USE_LIBCOAP);
  coap_address_t address;
  coap_address_init(&address);
  address.addr.sin.sin_family = AF_INET;
  address.addr.sin.sin_port = htons((uint16_t)port);
  address.addr.sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.size = sizeof(address.addr.sin);
  const char *key = count > 4 && !strcmp(arguments[3], "psk") ? arguments[4] : NULL;
  if (key && !coap_context_set_psk(context, "", (const uint8_t *)key, strlen(key))) {
    fprintf(stderr, "the key cannot be used\n");
    return 1;
  }
  if (!coap_new_endpoint(context, &address, key ? COAP_PROTO_DTLS : COAP_PROTO_UDP)) {
    fprintf(stderr, "port %d cannot be bound\n", port);
    return 1;
  }
  add(context, "test", 0, get_small);
  add(context, "big", 0, get_large);
  coap_resource_t *tick = add(context, "tick", COAP_RESOURCE_FLAGS_NOTIFY_CON, get_small);
  coap_resource_set_get_observable(tick, 1);
  if (!interval)
    for (;;)
      coap_io_process(context, COAP_IO_WAIT);
  coap_tick_t now, next;
  coap_ticks(&next);
  for (;;) {
    coap_ticks(&now);
    if (now < next) {
      coap_io_process(context, (uint32_t)((next - now) * 1000 / COAP_TICKS_PER_SECOND + 1));
      continue;
    }
    coap_resource_notify_observers(tick, NULL);
    coap_io_process(context, COAP_IO_NO_WAIT);
    coap_ticks(&now);
    next = now + (coap_tick_t)interval * COAP_TICKS_PER_SECOND / 1000;
  }
}
