/* libcoap client of `cargo xtask implementations`; arguments and output: ../../implementations/README.md. */

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <coap3/coap.h>

enum outcome { OPEN, ANSWERED, FAILED };

static enum outcome outcome;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void ask(coap_session_t *session) {
  uint8_t token[8];
  size_t length;
  coap_pdu_t *request = coap_new_pdu(COAP_MESSAGE_CON, COAP_REQUEST_CODE_GET, session);
  coap_session_new_token(session, &length, token);
  coap_add_token(request, length, token);
  outcome = OPEN;
  coap_send(session, request);
}

static coap_response_t on_response(coap_session_t *session, const coap_pdu_t *sent, const coap_pdu_t *received,
                                   coap_mid_t id) {
  (void)session, (void)sent, (void)received, (void)id;
  outcome = ANSWERED;
  return COAP_RESPONSE_OK;
}

static void on_failure(coap_session_t *session, const coap_pdu_t *sent, coap_nack_reason_t reason, coap_mid_t id) {
  (void)session, (void)sent, (void)reason, (void)id;
  outcome = FAILED;
}

/* Handles input until a time. */
static void run_until(coap_context_t *context, double time) {
  for (double left = time - now(); left > 0; left = time - now())
    coap_io_process(context, (uint32_t)(left * 1000) + 1);
}

int main(int count, char **arguments) {
  if (count < 6)
    return 2;
  int exchanges = atoi(arguments[3]);
  double interval = atof(arguments[4]), start = atof(arguments[5]);
  coap_startup();
  coap_set_log_level(LOG_ERR);
  coap_context_t *context = coap_new_context(NULL);
  coap_register_response_handler(context, on_response);
  coap_register_nack_handler(context, on_failure);
  coap_address_t address;
  coap_address_init(&address);
  address.addr.sin.sin_family = AF_INET;
  address.addr.sin.sin_port = htons((uint16_t)atoi(arguments[2]));
  if (inet_pton(AF_INET, arguments[1], &address.addr.sin.sin_addr) != 1)
    return 2;
  address.size = sizeof(address.addr.sin);
  coap_session_t *session = coap_new_client_session(context, NULL, &address, COAP_PROTO_UDP);
  run_until(context, start);
  for (int i = 0; i < exchanges; i++) {
    double began = now();
    ask(session);
    while (outcome == OPEN)
      coap_io_process(context, 1000);
    printf("{\"start\": %.6f, \"end\": %.6f, \"answered\": %s}\n", began, now(), outcome == ANSWERED ? "true" : "false");
    fflush(stdout);
    run_until(context, now() + interval);
  }
  return 0;
}
