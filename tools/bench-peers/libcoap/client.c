/* libcoap client of `cargo xtask bench-peers`; arguments and output: ../README.md. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <coap3/coap.h>

static unsigned long answered;

static void ask(coap_session_t *session) {
  uint8_t token[8];
  size_t length;
  coap_pdu_t *request = coap_new_pdu(COAP_MESSAGE_CON, COAP_REQUEST_CODE_GET, session);
  coap_session_new_token(session, &length, token);
  coap_add_token(request, length, token);
  coap_add_option(request, COAP_OPTION_URI_PATH, 4, (const uint8_t *)"test");
  coap_send(session, request);
}

static coap_response_t on_response(coap_session_t *session, const coap_pdu_t *sent, const coap_pdu_t *received,
                                   coap_mid_t id) {
  (void)sent, (void)id;
  size_t length;
  const uint8_t *payload;
  answered += coap_get_data(received, &length, &payload) && length == 60;
  ask(session);
  return COAP_RESPONSE_OK;
}

static void on_failure(coap_session_t *session, const coap_pdu_t *sent, coap_nack_reason_t reason, coap_mid_t id) {
  (void)sent, (void)reason, (void)id;
  ask(session);
}

/* Runs for this time and returns the number of responses, scaled to it: libcoap continues while ten
   sockets are readable. */
static double answers_in(coap_context_t *context, double seconds) {
  unsigned long before = answered;
  coap_tick_t start, now, time = (coap_tick_t)(seconds * COAP_TICKS_PER_SECOND);
  coap_ticks(&start);
  for (now = start; now - start < time; coap_ticks(&now))
    coap_io_process(context, 100);
  return now > start ? (double)(answered - before) * (double)time / (double)(now - start) : 0;
}

int main(int count, char **arguments) {
  if (count < 5)
    return 2;
  int port = atoi(arguments[1]), destinations = atoi(arguments[2]);
  double warm_up = atof(arguments[3]), seconds = atof(arguments[4]);
  coap_startup();
  coap_set_log_level(LOG_ERR);
  coap_context_t *context = coap_new_context(NULL);
  coap_register_response_handler(context, on_response);
  coap_register_nack_handler(context, on_failure);
  for (int i = 0; i < destinations; i++) {
    coap_address_t address;
    coap_address_init(&address);
    address.addr.sin.sin_family = AF_INET;
    address.addr.sin.sin_port = htons((uint16_t)(port + i));
    address.addr.sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.size = sizeof(address.addr.sin);
    ask(coap_new_client_session(context, NULL, &address, COAP_PROTO_UDP));
  }
  answers_in(context, warm_up);
  printf("answered %.0f\n", answers_in(context, seconds));
  return 0;
}
