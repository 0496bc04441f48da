/* Credentials and trust of a secured mode, from the files of ../credentials. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <coap3/coap.h>

/* A pre-shared key and its identity. */
typedef struct {
  coap_bin_const_t identity, key;
} psk_t;

/* The path of a file; libcoap keeps the pointer. */
static const char *path(const char *directory, const char *name, const char *extension) {
  char *path = malloc(strlen(directory) + strlen(name) + strlen(extension) + 2);
  sprintf(path, "%s/%s%s", directory, name, extension);
  return path;
}

/* Parses the line IDENTITY:KEY. */
static psk_t read_psk(const char *directory) {
  static char line[200];
  psk_t psk = {0};
  FILE *file = fopen(path(directory, "psk", ""), "r");
  char *colon = file && fgets(line, sizeof(line), file) ? strchr(line, ':') : NULL;
  if (!colon) {
    fprintf(stderr, "%s/psk has no line IDENTITY:KEY\n", directory);
    exit(1);
  }
  fclose(file);
  psk.identity = (coap_bin_const_t){.s = (uint8_t *)line, .length = (size_t)(colon - line)};
  psk.key = (coap_bin_const_t){.s = (uint8_t *)colon + 1, .length = strcspn(colon + 1, "\n")};
  return psk;
}

/* The own certificate, if named, and the CA certificate, if the peer must present one. */
static coap_dtls_pki_t read_pki(const char *directory, const char *own, int asks) {
  coap_dtls_pki_t pki = {.version = COAP_DTLS_PKI_SETUP_VERSION, .verify_peer_cert = (uint8_t)asks, .check_common_ca = 1};
  pki.cert_chain_validation = 1;
  pki.cert_chain_verify_depth = 2;
  pki.allow_no_crl = 1;
  pki.pki_key.key_type = COAP_PKI_KEY_PEM;
  pki.pki_key.key.pem.ca_file = path(directory, "ca", ".pem");
  if (own) {
    pki.pki_key.key.pem.public_cert = path(directory, own, ".pem");
    pki.pki_key.key.pem.private_key = path(directory, own, ".key");
  }
  return pki;
}
