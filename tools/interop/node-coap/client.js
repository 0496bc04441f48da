// node-coap client of `cargo xtask interop`; arguments, input and output: ../README.md.
'use strict'

const coap = require('coap')
const dgram = require('dgram')
const readline = require('readline')

const BLOCK = Number(process.env.BLOCK_SIZE || 1024)
const SIZE_EXPONENT = Math.log2(BLOCK) - 4

// An agent with its own socket stays open between requests.
const agents = {}

function agentFor (type) {
  if (!agents[type]) {
    const socket = dgram.createSocket(type)
    socket.bind(0)
    agents[type] = new coap.Agent({ socket, type })
  }
  return agents[type]
}

// URI, token and stream of the latest observation.
let observed

function say (...words) {
  console.log(words.join(' '))
}

function report (what, code, payload) {
  say(what, code, Buffer.from(payload || '').toString('hex'))
}

function request (reliability, method, uri, words) {
  const target = new URL(uri)
  const hostname = target.hostname.replace(/^\[|\]$/g, '')
  const parameters = {
    hostname,
    port: Number(target.port),
    pathname: decodeURIComponent(target.pathname),
    query: decodeURIComponent(target.search.slice(1)),
    method,
    confirmable: reliability === 'CON',
    agent: agentFor(hostname.includes(':') ? 'udp6' : 'udp4')
  }
  const options = []
  let payload
  for (const word of words) {
    const [name, rest] = [word.slice(0, word.indexOf('=')), word.slice(word.indexOf('=') + 1)]
    if (name === 'payload') {
      payload = Buffer.from(rest, 'hex')
    } else if (name === 'token') {
      parameters.token = Buffer.from(rest, 'hex')
    } else {
      const [number, value] = rest.split(':')
      options.push({ number: Number(number), value: Buffer.from(value, 'hex') })
    }
  }
  const OBSERVE = 6
  const observe = options.find(({ number }) => number === OBSERVE)
  if (observe) {
    parameters.observe = observe.value.length === 0 || observe.value[0] === 0 ? true : 1
  }
  const message = coap.request(parameters)
  for (const { number, value } of options) {
    if (number !== OBSERVE) {
      message._packet.options.push({ name: String(number), value })
    } else if (parameters.observe !== true) {
      message.setOption('Observe', value)
    }
  }
  // coap-packet expects Block1 and Block2 by name.
  for (const option of message._packet.options) {
    option.name = { 23: 'Block2', 27: 'Block1' }[option.name] || option.name
  }
  if (payload && payload.length > BLOCK && !options.some(({ number }) => number === 27)) {
    // Without this option node-coap sends a body in one message.
    message.setOption('Block1', Buffer.from([SIZE_EXPONENT]))
  }
  if (process.env.BLOCK_SIZE && method === 'GET') {
    message.setOption('Block2', Buffer.from([SIZE_EXPONENT]))
  }
  let first = true
  message.on('response', (response) => {
    if (parameters.observe !== true) {
      report('response', response.code, response.payload)
      return
    }
    observed = { uri, token: message._packet.token, response }
    response.on('data', (state) => {
      report(first ? 'response' : 'notified', response.code, state)
      first = false
    })
    response.on('error', (error) => say('failed', error))
  })
  message.on('error', (error) => say('failed', error.message || error))
  message.on('timeout', () => say('failed timeout'))
  message.end(payload)
}

function stop (how) {
  observed.response.close()
  if (how === 'get') {
    request('CON', 'GET', observed.uri, ['option=6:01', 'token=' + observed.token.toString('hex')])
  }
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const [verb, ...words] = line.split(' ')
  try {
    if (verb === 'ping') {
      throw new Error('node-coap has no ping')
    } else if (verb === 'stop') {
      stop(words[0])
    } else {
      request(verb, words[0], words[1], words.slice(2))
    }
  } catch (error) {
    say('failed', error.message)
  }
}).on('close', () => process.exit(0))
