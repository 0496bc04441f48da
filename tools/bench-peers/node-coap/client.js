// node-coap client of `cargo xtask bench-peers`; arguments and output: ../README.md.
'use strict'

const coap = require('coap')
const dgram = require('dgram')

const [port, destinations, warmUp, seconds] = process.argv.slice(2).map(Number)
let answered = 0

// The default agent closes its socket when idle for a moment.
const socket = dgram.createSocket('udp4')
socket.bind(0, '127.0.0.1')
const agent = new coap.Agent({ socket })

function ask (port) {
  const request = coap.request({ host: '127.0.0.1', port, pathname: '/test', agent })
  request.on('response', response => {
    if (response.payload.length === 60) answered++
    ask(port)
  })
  request.on('error', error => {
    console.error(error.message)
    ask(port)
  })
  request.end()
}

for (let at = 0; at < destinations; at++) ask(port + at)
setTimeout(() => {
  const before = answered
  setTimeout(() => {
    console.log(`answered ${answered - before}`)
    process.exit()
  }, seconds * 1000)
}, warmUp * 1000)
