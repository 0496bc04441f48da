#!/bin/sh
# Makes the certificates of the secured cases in this directory: test keys.
set -eu
cd "$(dirname "$0")"
key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }
signed() { # name, extensions
    key "$1"
    openssl req -new -key "$1.key" -subj "/CN=$1" -out "$1.csr"
    printf '%s\n' "$2" > "$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -days 36500 -extfile "$1.ext" -out "$1.pem"
    rm "$1.csr" "$1.ext"
}
key ca
openssl req -x509 -key ca.key -subj "/CN=conche interop root" -days 36500 -out ca.pem \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign"
signed server "keyUsage=digitalSignature
extendedKeyUsage=serverAuth
subjectAltName=IP:127.0.0.1,DNS:localhost"
signed client "keyUsage=digitalSignature
extendedKeyUsage=clientAuth
subjectAltName=DNS:lamp-7.example"
rm ca.key
