#!/bin/sh
# Creates the test certificates in this directory.
set -eu
cd "$(dirname "$0")"
key() { openssl genpkey -algorithm EC -pkeyopt "ec_paramgen_curve:${2:-P-256}" -outform DER -out "$1.key"; }
self() { # name, subject, extension
    key "$1"
    openssl req -x509 -key "$1.key" -keyform DER -subj "/CN=$2" -days 36500 -addext "$3" -outform DER -out "$1.der"
}
signed() { # name, subject, issuer, extensions, dates
    openssl req -new -key "$1.key" -keyform DER -subj "/CN=$2" -out "$1.csr"
    printf '%s\n' "$4" > "$1.ext"
    openssl x509 -req -in "$1.csr" -CA "$3.der" -CAkey "$3.key" -CAkeyform DER ${5:--days 36500} \
        -extfile "$1.ext" -outform DER -out "$1.der"
    rm "$1.csr" "$1.ext"
}
self root "conche test root" "basicConstraints=critical,CA:TRUE"
self other "another root" "basicConstraints=critical,CA:TRUE"
for name in server client expired intermediate leaf stranger; do key "$name"; done
key large P-384
server_auth="extendedKeyUsage=serverAuth"
signed server server root "$server_auth
subjectAltName=DNS:coap.example,IP:192.0.2.1"
signed stranger stranger other "$server_auth,clientAuth
subjectAltName=DNS:coap.example"
signed client client root "extendedKeyUsage=clientAuth
subjectAltName=DNS:lamp.example"
signed expired expired root "$server_auth
subjectAltName=DNS:coap.example" "-days 1"
signed intermediate intermediate root "basicConstraints=critical,CA:TRUE"
signed leaf leaf intermediate "$server_auth
subjectAltName=DNS:coap.example"
names=$(seq -s, -f 'DNS:device-%g.coap.example' 1 60)
signed large large root "$server_auth
subjectAltName=DNS:coap.example,$names"
rm root.key other.key other.der intermediate.key
