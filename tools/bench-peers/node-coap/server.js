// node-coap server of `cargo xtask bench-peers`; arguments and resources: ../README.md.
'use strict'

const coap = require('coap')

const [port, interval] = process.argv.slice(2).map(Number)
const small = Buffer.alloc(60, 'x')
const large = Buffer.alloc(65536, 'x')
const observers = new Set()

const server = coap.createServer({ type: 'udp4' }, (request, response) => {
  if (request.url === '/test') return response.end(small)
  if (request.url === '/big') return response.end(large)
  if (request.url === '/tick' && request.headers.Observe === 0) {
    response.write(small)
    observers.add(response)
    return response.on('finish', () => observers.delete(response))
  }
  if (request.url === '/tick') return response.end(small)
  response.code = '4.04'
  response.end()
})
server.listen(port, '127.0.0.1')

function tick () {
  for (const observer of observers) observer.write(small)
  setTimeout(tick, interval)
}
if (interval > 0) tick()
