/* libcoap server of `cargo xtask interop`; arguments and resources: ../README.md. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <coap3/coap.h>
#include "address.h"
#include "credentials.h"

#define LARGE 2000

/* A document for GET, PUT and DELETE. */
typedef struct {
  uint8_t bytes[65536];
  size_t length;
  unsigned format, version;
  int exists;
} document_t;

static document_t large_text;

static void set_text(document_t *document, const uint8_t *bytes, size_t length) {
  document->length = length < sizeof(document->bytes) ? length : sizeof(document->bytes);
  memcpy(document->bytes, bytes, document->length);
  document->exists = 1;
  document->version++;
}

static int has_value(const coap_pdu_t *request, coap_option_num_t number, const document_t *document, int *there) {
  coap_opt_iterator_t iterator;
  coap_opt_filter_t filter;
  coap_opt_t *option;
  uint8_t etag = (uint8_t)document->version;
  int matches = 0;
  coap_option_filter_clear(&filter);
  coap_option_filter_set(&filter, number);
  coap_option_iterator_init(request, &iterator, &filter);
  for (*there = 0; (option = coap_option_next(&iterator)); *there = 1)
    matches |= coap_opt_length(option) == 1 && *coap_opt_value(option) == etag;
  return matches;
}

static unsigned number_of(const coap_pdu_t *request, coap_option_num_t number, unsigned otherwise) {
  coap_opt_iterator_t iterator;
  coap_opt_t *option = coap_check_option(request, number, &iterator);
  return option ? coap_decode_var_bytes(coap_opt_value(option), coap_opt_length(option)) : otherwise;
}

static void add_uint(coap_pdu_t *response, coap_option_num_t number, unsigned value) {
  uint8_t bytes[4];
  coap_add_option(response, number, coap_encode_var_safe(bytes, sizeof(bytes), value), bytes);
}

static void send_document(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request,
                          const coap_string_t *query, coap_pdu_t *response, const document_t *document) {
  /* For a body that fits into one message, libcoap does not set the options. */
  if (document->length <= 1024) {
    add_uint(response, COAP_OPTION_ETAG, document->version);
    add_uint(response, COAP_OPTION_CONTENT_FORMAT, document->format);
    coap_add_data(response, document->length, document->bytes);
    return;
  }
  coap_add_data_large_response(resource, session, request, response, query, (uint16_t)document->format, -1,
                               document->version, document->length, document->bytes, NULL, NULL);
}

static void get(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request,
                const coap_string_t *query, coap_pdu_t *response) {
  document_t *document = coap_resource_get_userdata(resource);
  int there;
  if (!document->exists) {
    coap_pdu_set_code(response, COAP_RESPONSE_CODE_NOT_FOUND);
  } else if (has_value(request, COAP_OPTION_ETAG, document, &there)) {
    uint8_t etag = (uint8_t)document->version;
    coap_pdu_set_code(response, COAP_RESPONSE_CODE_VALID);
    coap_add_option(response, COAP_OPTION_ETAG, 1, &etag);
  } else {
    coap_pdu_set_code(response, COAP_RESPONSE_CODE_CONTENT);
    send_document(resource, session, request, query, response, document);
  }
}

static void put(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request,
                const coap_string_t *query, coap_pdu_t *response) {
  (void)session, (void)query;
  document_t *document = coap_resource_get_userdata(resource);
  size_t length = 0, offset, total;
  const uint8_t *bytes = NULL;
  int conditional, matches = has_value(request, COAP_OPTION_IF_MATCH, document, &conditional);
  coap_opt_iterator_t iterator;
  if ((conditional && !matches) ||
      (document->exists && coap_check_option(request, COAP_OPTION_IF_NONE_MATCH, &iterator))) {
    coap_pdu_set_code(response, COAP_RESPONSE_CODE(412));
    return;
  }
  coap_pdu_set_code(response, document->exists ? COAP_RESPONSE_CODE_CHANGED : COAP_RESPONSE_CODE_CREATED);
  coap_get_data_large(request, &length, &bytes, &offset, &total);
  document->format = number_of(request, COAP_OPTION_CONTENT_FORMAT, document->format);
  set_text(document, bytes, length);
  coap_resource_notify_observers(resource, NULL);
}

static void delete(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request,
                   const coap_string_t *query, coap_pdu_t *response) {
  (void)session, (void)request, (void)query;
  ((document_t *)coap_resource_get_userdata(resource))->exists = 0;
  coap_pdu_set_code(response, COAP_RESPONSE_CODE_DELETED);
}

/* Answers a POST with 2.01 and a location. */
static void create(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request,
                   const coap_string_t *query, coap_pdu_t *response) {
  (void)session, (void)request, (void)query;
  coap_str_const_t *path = coap_resource_get_uri_path(resource);
  coap_pdu_set_code(response, COAP_RESPONSE_CODE_CREATED);
  if (!strncmp((const char *)path->s, "location-query", path->length)) {
    coap_add_option(response, COAP_OPTION_LOCATION_QUERY, 7, (const uint8_t *)"first=1");
    coap_add_option(response, COAP_OPTION_LOCATION_QUERY, 8, (const uint8_t *)"second=2");
  } else {
    coap_add_option(response, COAP_OPTION_LOCATION_PATH, 9, (const uint8_t *)"location1");
    coap_add_option(response, COAP_OPTION_LOCATION_PATH, 9, (const uint8_t *)"location2");
    coap_add_option(response, COAP_OPTION_LOCATION_PATH, 9, (const uint8_t *)"location3");
  }
}

/* Answers a POST with the large text. */
static void post_large(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request,
                       const coap_string_t *query, coap_pdu_t *response) {
  coap_pdu_set_code(response, COAP_RESPONSE_CODE_CHANGED);
  send_document(resource, session, request, query, response, &large_text);
}

static void get_query(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request,
                      const coap_string_t *query, coap_pdu_t *response) {
  static document_t echo;
  set_text(&echo, query ? query->s : NULL, query ? query->length : 0);
  coap_pdu_set_code(response, COAP_RESPONSE_CODE_CONTENT);
  send_document(resource, session, request, query, response, &echo);
}

static void get_format(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request,
                       const coap_string_t *query, coap_pdu_t *response) {
  unsigned accept = number_of(request, COAP_OPTION_ACCEPT, 0);
  if (accept != 0 && accept != COAP_MEDIATYPE_APPLICATION_XML) {
    coap_pdu_set_code(response, COAP_RESPONSE_CODE_NOT_ACCEPTABLE);
    return;
  }
  static document_t multi;
  const char *text = accept ? "<text>hello</text>" : "hello";
  set_text(&multi, (const uint8_t *)text, strlen(text));
  multi.format = accept;
  coap_pdu_set_code(response, COAP_RESPONSE_CODE_CONTENT);
  send_document(resource, session, request, query, response, &multi);
}

static void get_separate(coap_resource_t *resource, coap_session_t *session, const coap_pdu_t *request,
                         const coap_string_t *query, coap_pdu_t *response) {
  coap_async_t *waiting = coap_find_async(session, coap_pdu_get_token(request));
  if (!waiting) {
    coap_register_async(session, request, 3 * COAP_TICKS_PER_SECOND / 2);
    return;
  }
  get(resource, session, request, query, response);
}

static coap_resource_t *add(coap_context_t *context, const char *path, const char *text) {
  document_t *document = calloc(1, sizeof(*document));
  coap_resource_t *resource = coap_resource_init(coap_make_str_const(path), 0);
  if (text)
    set_text(document, (const uint8_t *)text, strlen(text));
  coap_resource_set_userdata(resource, document);
  coap_register_handler(resource, COAP_REQUEST_GET, get);
  coap_add_resource(context, resource);
  return resource;
}

static coap_resource_t *add_with_put(coap_context_t *context, const char *path, const char *text) {
  coap_resource_t *resource = add(context, path, text);
  coap_register_handler(resource, COAP_REQUEST_PUT, put);
  coap_register_handler(resource, COAP_REQUEST_DELETE, delete);
  return resource;
}

static void attribute(coap_resource_t *resource, const char *name, const char *value) {
  coap_add_attr(resource, coap_make_str_const(name), coap_make_str_const(value), 0);
}

static void add_with_post(coap_context_t *context, const char *path, coap_method_handler_t handler) {
  coap_register_handler(add(context, path, ""), COAP_REQUEST_POST, handler);
}

static coap_resource_t *observables[3];

static coap_resource_t *observable(coap_resource_t *resource) {
  coap_resource_set_get_observable(resource, 1);
  return resource;
}

static void add_obs(coap_context_t *context, const char *text) {
  observables[0] = observable(add_with_put(context, "obs", text));
  coap_resource_set_mode(observables[0], COAP_RESOURCE_FLAGS_NOTIFY_CON);
}

/* Called by libcoap for a resource that does not exist until a PUT. */
static void put_unknown(coap_resource_t *unknown, coap_session_t *session, const coap_pdu_t *request,
                        const coap_string_t *query, coap_pdu_t *response) {
  (void)unknown;
  coap_context_t *context = coap_session_get_context(session);
  coap_string_t *path = coap_get_uri_path(request);
  coap_str_const_t *copy = coap_new_str_const(path->s, path->length);
  coap_delete_string(path);
  if (coap_string_equal(copy, coap_make_str_const("obs")))
    add_obs(context, NULL);
  else
    add_with_put(context, (const char *)copy->s, NULL);
  put(coap_get_resource_from_uri_path(context, copy), session, request, query, response);
}

/* Removes the resource; libcoap notifies its observers. */
static void delete_absent(coap_context_t *context) {
  static const char *const PATHS[] = {"create1", "create2", "create3", "obs"};
  for (size_t i = 0; i < sizeof(PATHS) / sizeof(*PATHS); i++) {
    coap_resource_t *resource = coap_get_resource_from_uri_path(context, coap_make_str_const(PATHS[i]));
    if (!resource || ((document_t *)coap_resource_get_userdata(resource))->exists)
      continue;
    if (resource == observables[0])
      observables[0] = NULL;
    coap_delete_resource(context, resource);
  }
}

static void add_links(coap_context_t *context) {
  coap_resource_t *link = add(context, "link1", "link1");
  attribute(link, "rt", "\"Type1\"");
  attribute(link, "if", "\"If1\"");
  attribute(link, "sz", "5");
  link = add(context, "link2", "link2");
  attribute(link, "rt", "\"Type2\"");
  attribute(link, "if", "\"If2\"");
  link = add(context, "link3", "link3");
  attribute(link, "rt", "\"Type1 Type2\"");
  attribute(link, "if", "\"foo\"");
  link = add(context, "path", "</path/sub1>,</path/sub2>,</path/sub3>");
  ((document_t *)coap_resource_get_userdata(link))->format = COAP_MEDIATYPE_APPLICATION_LINK_FORMAT;
  attribute(link, "ct", "40");
  add(context, "path/sub1", "sub1");
  add(context, "path/sub2", "sub2");
  add(context, "path/sub3", "sub3");
}

static const coap_bin_const_t *key_of(coap_bin_const_t *identity, coap_session_t *session, void *argument) {
  psk_t *psk = argument;
  (void)session;
  int known = identity->length == psk->identity.length && !memcmp(identity->s, psk->identity.s, identity->length);
  return known ? &psk->key : NULL;
}

/* Sets how clients authenticate in this mode, and returns the transport. */
static coap_proto_t secure(coap_context_t *context, const char *mode, const char *credentials) {
  static psk_t psk;
  if (!strcmp(mode, "psk")) {
    psk = read_psk(credentials);
    coap_dtls_spsk_t setup = {.version = COAP_DTLS_SPSK_SETUP_VERSION, .psk_info.key = psk.key};
    setup.validate_id_call_back = key_of;
    setup.id_call_back_arg = &psk;
    coap_context_set_psk2(context, &setup);
  } else {
    coap_dtls_pki_t setup = read_pki(credentials, "server", !strcmp(mode, "mutual"));
    coap_context_set_pki(context, &setup);
  }
  return COAP_PROTO_DTLS;
}

int main(int count, char **arguments) {
  coap_address_t address;
  static char text[LARGE + 1];
  for (size_t i = 0; i < LARGE; i++)
    text[i] = "0123456789abcdef"[i % 16];
  set_text(&large_text, (const uint8_t *)text, LARGE);
  coap_startup();
  coap_set_log_level(LOG_EMERG);
  if (count < 3 || !set_host(&address, arguments[1], (uint16_t)atoi(arguments[2]))) {
    fprintf(stderr, "usage: server ADDRESS PORT [MODE CREDENTIALS]\n");
    return 2;
  }
  coap_context_t *context = coap_new_context(NULL);
  coap_context_set_block_mode(context, COAP_BLOCK_USE_LIBCOAP | COAP_BLOCK_SINGLE_BODY);
  coap_proto_t protocol = count == 5 ? secure(context, arguments[3], arguments[4]) : COAP_PROTO_UDP;
  coap_endpoint_t *endpoint = NULL;
  unsigned wanted = coap_address_get_port(&address), port = wanted ? wanted : 20000 + (unsigned)getpid() % 20000;
  for (;; port++) {
    coap_address_set_port(&address, (uint16_t)port);
    endpoint = coap_new_endpoint(context, &address, protocol);
    if (endpoint)
      break;
    if (wanted)
      return 1;
  }
  int is_ipv6 = address.addr.sa.sa_family == AF_INET6;
  printf("listening %s%s%s:%u\n", is_ipv6 ? "[" : "", arguments[1], is_ipv6 ? "]" : "", port);
  fflush(stdout);

  coap_register_handler(add_with_put(context, "test", "hello"), COAP_REQUEST_POST, create);
  coap_register_handler(add(context, "separate", "separate"), COAP_REQUEST_GET, get_separate);
  add(context, "seg1/seg2/seg3", "seg3");
  coap_register_handler(add(context, "query", ""), COAP_REQUEST_GET, get_query);
  coap_register_handler(add(context, "multi-format", ""), COAP_REQUEST_GET, get_format);
  add_with_post(context, "location-query", create);
  add_with_put(context, "validate", "valid");
  add(context, "large", text);
  add_with_put(context, "large-update", text);
  add_with_post(context, "large-create", create);
  add_with_post(context, "large-post", post_large);
  add_links(context);
  add_obs(context, "tick");
  observables[1] = observable(add(context, "obs-non", "tick"));
  observables[2] = observable(add(context, "obs-large", text));
  coap_add_resource(context, coap_resource_unknown_init(put_unknown));

  unsigned ticks = 0;
  for (coap_tick_t now, then = 0;;) {
    coap_io_process(context, 100);
    delete_absent(context);
    coap_ticks(&now);
    if (now - then < COAP_TICKS_PER_SECOND)
      continue;
    then = now;
    ticks++;
    for (size_t i = 0; i < 3; i++) {
      if (!observables[i])
        continue;
      document_t *document = coap_resource_get_userdata(observables[i]);
      if (document->exists && i < 2) {
        char tick[16];
        set_text(document, (uint8_t *)tick, (size_t)snprintf(tick, sizeof(tick), "tick %u", ticks));
      }
      if (i == 2)
        document->bytes[0] = (uint8_t)('a' + ticks % 26), document->version++;
      if (document->exists)
        coap_resource_notify_observers(observables[i], NULL);
    }
  }
}
