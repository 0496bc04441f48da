/* libcoap client of `cargo xtask interop`; arguments, input and output: ../README.md. */

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <coap3/coap.h>
#include "address.h"
#include "credentials.h"

static const char *mode = "plain";
static const char *credentials; /* directory */
static coap_session_t *session;
static coap_binary_t *observed; /* token of the observation */
static coap_binary_t *asked;    /* token of the open request, until its response was printed */
static int rejecting;           /* whether to answer the next notification with a Reset */

static size_t from_hex(const char *hex, uint8_t *bytes, size_t room) {
  size_t count = 0;
  for (unsigned byte; count < room && sscanf(hex + 2 * count, "%2x", &byte) == 1; count++)
    bytes[count] = (uint8_t)byte;
  return count;
}

static int is(const coap_bin_const_t *token, const coap_binary_t *known) {
  return known && token->length == known->length && !memcmp(token->s, known->s, token->length);
}

/* Without bytes, removes it. */
static void set(coap_binary_t **known, size_t length, const uint8_t *bytes) {
  coap_delete_binary(*known);
  *known = bytes ? coap_new_binary(length) : NULL;
  if (bytes)
    memcpy((*known)->s, bytes, length);
}

static void say(const char *what, coap_pdu_code_t code, const uint8_t *payload, size_t length) {
  printf("%s %d.%02d ", what, code >> 5, code & 31);
  for (size_t i = 0; i < length; i++)
    printf("%02x", payload[i]);
  printf("\n");
  fflush(stdout);
}

static coap_response_t on_response(coap_session_t *from, const coap_pdu_t *sent, const coap_pdu_t *received,
                                   coap_mid_t mid) {
  (void)from, (void)sent, (void)mid;
  coap_bin_const_t token = coap_pdu_get_token(received);
  size_t length = 0, offset, total;
  const uint8_t *payload = NULL;
  coap_get_data_large(received, &length, &payload, &offset, &total);
  int notification = !is(&token, asked) && is(&token, observed);
  if (notification && rejecting) {
    rejecting = 0;
    return COAP_RESPONSE_FAIL;
  }
  say(notification ? "notified" : "response", coap_pdu_get_code(received), payload, length);
  if (!notification)
    set(&asked, 0, NULL);
  return COAP_RESPONSE_OK;
}

static void on_nack(coap_session_t *from, const coap_pdu_t *sent, coap_nack_reason_t reason, coap_mid_t mid) {
  (void)from, (void)mid;
  if (reason == COAP_NACK_RST && sent && coap_pdu_get_code(sent) == 0)
    printf("response pong\n");
  else
    printf("failed nack %d\n", reason);
  fflush(stdout);
}

static void on_pong(coap_session_t *from, const coap_pdu_t *received, coap_mid_t mid) {
  (void)from, (void)received, (void)mid;
  printf("response pong\n");
  fflush(stdout);
}

static coap_session_t *open_session(coap_context_t *context, const coap_address_t *address) {
  int shows = !strcmp(mode, "mutual");
  if (!strcmp(mode, "psk")) {
    psk_t psk = read_psk(credentials);
    coap_dtls_cpsk_t setup = {.version = COAP_DTLS_CPSK_SETUP_VERSION, .psk_info = {psk.identity, psk.key}};
    return coap_new_client_session_psk2(context, NULL, address, COAP_PROTO_DTLS, &setup);
  }
  if (shows || !strcmp(mode, "certificate")) {
    coap_dtls_pki_t setup = read_pki(credentials, shows ? "client" : NULL, 1);
    return coap_new_client_session_pki(context, NULL, address, COAP_PROTO_DTLS, &setup);
  }
  return coap_new_client_session(context, NULL, address, COAP_PROTO_UDP);
}

/* Returns the session with the URI's address and port; opens it if there is none. */
static void connect_to(coap_context_t *context, const coap_uri_t *uri) {
  static uint16_t port;
  char host[64];
  if (session && port == uri->port)
    return;
  if (session)
    coap_session_release(session);
  coap_address_t address;
  coap_address_init(&address);
  snprintf(host, sizeof(host), "%.*s", (int)uri->host.length, (const char *)uri->host.s);
  set_host(&address, host, uri->port);
  port = uri->port;
  session = open_session(context, &address);
}

static void add_uri(const coap_uri_t *uri, coap_optlist_t **options) {
  uint8_t buffer[512], *at = buffer;
  size_t length = sizeof(buffer);
  int count = uri->path.length ? coap_split_path(uri->path.s, uri->path.length, buffer, &length) : 0;
  for (; count > 0; count--, at += coap_opt_size(at))
    coap_insert_optlist(options, coap_new_optlist(COAP_OPTION_URI_PATH, coap_opt_length(at), coap_opt_value(at)));
  at = buffer, length = sizeof(buffer);
  count = uri->query.length ? coap_split_query(uri->query.s, uri->query.length, buffer, &length) : 0;
  for (; count > 0; count--, at += coap_opt_size(at))
    coap_insert_optlist(options, coap_new_optlist(COAP_OPTION_URI_QUERY, coap_opt_length(at), coap_opt_value(at)));
}

static void request(coap_context_t *context, int confirmable, const char *method, char *words) {
  static const char *const METHODS[] = {"", "GET", "POST", "PUT", "DELETE", "FETCH", "PATCH", "iPATCH"};
  static uint8_t payload[65536];
  uint8_t token[8], value[1024];
  size_t payload_length = 0, token_length;
  int code = 7, observes = 0;
  coap_optlist_t *options = NULL;
  coap_uri_t uri;
  char *text = strtok(words, " ");
  if (!text || coap_split_uri((uint8_t *)text, strlen(text), &uri) < 0)
    return;
  connect_to(context, &uri);
  add_uri(&uri, &options);
  while (code > 0 && strcmp(METHODS[code], method))
    code--;
  coap_session_new_token(session, &token_length, token);
  while ((text = strtok(NULL, " "))) {
    char *hex = strchr(text, ':');
    if (!strncmp(text, "payload=", 8))
      payload_length = from_hex(text + 8, payload, sizeof(payload));
    else if (!strncmp(text, "token=", 6))
      token_length = from_hex(text + 6, token, sizeof(token));
    else if (!strncmp(text, "option=", 7) && hex) {
      int number = atoi(text + 7);
      size_t length = from_hex(hex + 1, value, sizeof(value));
      observes |= number == COAP_OPTION_OBSERVE && length == 0;
      coap_insert_optlist(&options, coap_new_optlist((uint16_t)number, length, value));
    }
  }
  const char *block = getenv("BLOCK_SIZE");
  unsigned block_size = block ? (unsigned)atoi(block) : 0;
  if (block_size && (code == COAP_REQUEST_CODE_GET || payload_length > block_size)) {
    coap_option_num_t number = code == COAP_REQUEST_CODE_GET ? COAP_OPTION_BLOCK2 : COAP_OPTION_BLOCK1;
    size_t length = coap_encode_var_safe(value, sizeof(value), (unsigned)coap_fls(block_size) - 5);
    coap_insert_optlist(&options, coap_new_optlist(number, length, value));
  }
  coap_pdu_t *pdu = coap_new_pdu(confirmable ? COAP_MESSAGE_CON : COAP_MESSAGE_NON, code, session);
  coap_add_token(pdu, token_length, token);
  coap_add_optlist_pdu(pdu, &options);
  coap_delete_optlist(options);
  if (payload_length)
    coap_add_data_large_request(session, pdu, payload_length, payload, NULL, NULL);
  if (observes)
    set(&observed, token_length, token);
  set(&asked, token_length, token);
  coap_send(session, pdu);
}

int main(int count, char **arguments) {
  static char line[200000];
  if (count == 3)
    mode = arguments[1], credentials = arguments[2];
  coap_startup();
  coap_set_log_level(LOG_EMERG);
  coap_context_t *context = coap_new_context(NULL);
  coap_context_set_block_mode(context, COAP_BLOCK_USE_LIBCOAP | COAP_BLOCK_SINGLE_BODY);
  coap_register_response_handler(context, on_response);
  coap_register_nack_handler(context, on_nack);
  coap_register_pong_handler(context, on_pong);
  setvbuf(stdin, NULL, _IONBF, 0);
  for (;;) {
    struct pollfd input = {.fd = 0, .events = POLLIN};
    coap_io_process(context, 20);
    if (poll(&input, 1, 0) == 0)
      continue;
    if (!fgets(line, sizeof(line), stdin))
      return 0;
    line[strcspn(line, "\n")] = 0;
    char *rest = strchr(line, ' ');
    if (!rest)
      continue;
    *rest++ = 0;
    if (!strcmp(line, "stop")) {
      if (!strcmp(rest, "reset"))
        rejecting = 1;
      else if (observed) {
        set(&asked, observed->length, observed->s);
        coap_cancel_observe(session, observed, COAP_MESSAGE_CON);
      }
    } else if (!strcmp(line, "ping")) {
      coap_uri_t uri;
      if (coap_split_uri((uint8_t *)rest, strlen(rest), &uri) == 0) {
        connect_to(context, &uri);
        coap_session_send_ping(session);
      }
    } else {
      char *words = strchr(rest, ' ');
      if (words) {
        *words++ = 0;
        request(context, !strcmp(line, "CON"), rest, words);
      }
    }
  }
}
