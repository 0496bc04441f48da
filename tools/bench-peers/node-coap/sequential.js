// node-coap client of `cargo xtask implementations`; arguments and output: ../../implementations/README.md.
'use strict'

const coap = require('coap')

const [hostname, ...numbers] = process.argv.slice(2)
const [port, exchanges, interval, start] = numbers.map(Number)
const now = () => Date.now() / 1000

function ask (left) {
  if (left === 0) process.exit()
  const began = now()
  let isOpen = true
  const end = answered => {
    if (!isOpen) return
    isOpen = false
    console.log(JSON.stringify({ start: began, end: now(), answered }))
    setTimeout(ask, interval * 1000, left - 1)
  }
  const request = coap.request({ hostname, port, pathname: '/' })
  request.on('response', () => end(true))
  request.on('error', error => {
    console.error(error.message)
    end(false)
  })
  request.end()
}

setTimeout(ask, Math.max(0, start - now()) * 1000, exchanges)
