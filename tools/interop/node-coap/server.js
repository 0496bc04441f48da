// node-coap server of `cargo xtask interop`; arguments and resources: ../README.md.
'use strict'

const coap = require('coap')

const LARGE = Buffer.from('0123456789abcdef'.repeat(125))
const XML = Buffer.from([41])
const LINK_FORMAT = Buffer.from([40])
const TEXT = Buffer.alloc(0)

function values (request, name) {
  return request._packet.options.filter((option) => option.name === name).map(({ value }) => Buffer.from(value))
}

function raw (request, number) {
  // coap-packet converts these values, including the formats of the cases.
  const formats = { 'text/plain': 0, 'application/link-format': 40, 'application/xml': 41, 'application/octet-stream': 42, 'application/json': 50 }
  const value = request.headers[number]
  return value === undefined ? undefined : formats[value] ?? value
}

function respond (response, code, { payload, format = TEXT, options = {} } = {}) {
  response.code = code
  response.statusCode = code
  if (payload !== undefined) {
    response.setOption('Content-Format', format)
  }
  for (const [name, value] of Object.entries(options)) {
    response.setOption(name, value)
  }
  response.end(payload)
}

function endpoint (request) {
  return `${request.rsinfo.address} ${request.rsinfo.port} ${request._packet.token.toString('hex')}`
}

class Document {
  constructor (payload, tick) {
    Object.assign(this, { payload, format: 0, version: 1, observers: new Set() })
    if (tick) {
      let count = 0
      setInterval(() => {
        count += 1
        if (this.payload !== undefined) {
          this.payload = tick(count)
          this.changed()
        }
      }, 1000)
    }
  }

  changed () {
    this.version += 1
    for (const observer of this.observers) {
      this.tell(observer)
    }
  }

  tell (observer) {
    if (this.payload === undefined) {
      observer.statusCode = '4.04'
      observer._packet.options = []
      observer.write(Buffer.alloc(0))
      observer.end()
      this.observers.delete(observer)
      return
    }
    observer.statusCode = '2.05'
    observer.setOption('ETag', Buffer.from([this.version % 256]))
    observer.setOption('Content-Format', Buffer.from(this.format ? [this.format] : []))
    observer.write(this.payload)
  }

  // A GET with Observe removes the registration of its endpoint and token; Observe=0 adds a new
  // one (RFC 7641 section 2).
  forget (request) {
    for (const observer of this.observers) {
      if (request.headers.Observe !== undefined && observer.endpoint === endpoint(request)) {
        this.observers.delete(observer)
      }
    }
  }

  handle (request, response) {
    const version = Buffer.from([this.version % 256])
    const etag = { ETag: version }
    switch (request.method) {
      case 'GET':
        this.forget(request)
        if (request.headers.Observe === 0) {
          if (this.payload === undefined) {
            return respond(response, '4.04')
          }
          this.observers.add(response)
          response.endpoint = endpoint(request)
          response.on('finish', () => this.observers.delete(response))
          return this.tell(response)
        }
        if (this.payload === undefined) {
          return respond(response, '4.04')
        }
        if (values(request, 'ETag').some((known) => known.equals(version))) {
          return respond(response, '2.03', { options: etag })
        }
        return respond(response, '2.05', { payload: this.payload, format: Buffer.from(this.format ? [this.format] : []), options: etag })
      case 'PUT': {
        const conditions = values(request, 'If-Match')
        const differs = conditions.length > 0 && !conditions.some((known) => known.equals(version))
        if (differs || (values(request, 'If-None-Match').length > 0 && this.payload !== undefined)) {
          return respond(response, '4.12')
        }
        const code = this.payload === undefined ? '2.01' : '2.04'
        const format = raw(request, 'Content-Format') ?? 0
        if (format !== this.format) {
          this.dismiss()
        }
        Object.assign(this, { payload: Buffer.from(request.payload), format })
        respond(response, code)
        return this.changed()
      }
      case 'DELETE':
        this.payload = undefined
        respond(response, '2.02')
        return this.changed()
      default:
        return respond(response, '2.01', { options: { 'Location-Path': ['location1', 'location2', 'location3'].map((part) => Buffer.from(part)) } })
    }
  }

  // A notification has the Content-Format of the first (RFC 7641 section 4.2).
  dismiss () {
    for (const observer of this.observers) {
      observer.statusCode = '4.06'
      observer._packet.options = []
      observer.write(Buffer.alloc(0))
      observer.end()
    }
    this.observers.clear()
  }
}

function read (payload, format) {
  return { handle: (request, response) => respond(response, '2.05', { payload: Buffer.from(payload), format }) }
}

// Requests of /separate without a response yet.
const pending = new Set()

function separate (request, response) {
  const key = `${endpoint(request)} ${request._packet.messageId}`
  // node-coap passes retransmissions to the application until the response is sent.
  if (!pending.has(key)) {
    pending.add(key)
    setTimeout(() => {
      pending.delete(key)
      respond(response, '2.05', { payload: Buffer.from('separate') })
    }, 1500)
  }
}

const LINKS = [
  ['/test', {}], ['/separate', {}], ['/seg1/seg2/seg3', {}], ['/query', {}], ['/large', { sz: '2000' }],
  ['/obs', {}], ['/obs-non', {}], ['/link1', { rt: 'Type1', if: 'If1', sz: '5' }],
  ['/link2', { rt: 'Type2', if: 'If2' }], ['/link3', { rt: 'Type1 Type2', if: 'foo' }], ['/path', { ct: '40' }]
]

function discover (query) {
  const [name, wanted = ''] = (query || '').split('=')
  const fits = (value) => wanted.endsWith('*') ? value.startsWith(wanted.slice(0, -1)) : value === wanted
  const chosen = LINKS.filter(([path, attributes]) => {
    const all = name === 'href' ? [path] : (attributes[name] || '').split(' ').filter((value) => value)
    return !query || all.some(fits)
  })
  const number = (key) => key === 'sz' || key === 'ct'
  const write = ([key, value]) => number(key) ? `;${key}=${value}` : `;${key}="${value}"`
  return chosen.map(([path, attributes]) => `<${path}>` + Object.entries(attributes).map(write).join('')).join(',')
}

const resources = {
  test: new Document(Buffer.from('hello')),
  validate: new Document(Buffer.from('valid')),
  create1: new Document(undefined),
  create2: new Document(undefined),
  create3: new Document(undefined),
  'large-update': new Document(LARGE),
  'large-create': new Document(Buffer.alloc(0)),
  large: read(LARGE),
  'large-post': { handle: (request, response) => respond(response, '2.04', { payload: LARGE }) },
  separate: { handle: separate },
  'seg1/seg2/seg3': read('seg3'),
  query: { handle: (request, response) => respond(response, '2.05', { payload: Buffer.from(request.url.split('?')[1] || '') }) },
  'location-query': {
    handle: (request, response) => respond(response, '2.01', { options: { 'Location-Query': ['first=1', 'second=2'].map((part) => Buffer.from(part)) } })
  },
  'multi-format': {
    handle: (request, response) => {
      const accept = raw(request, 'Accept') ?? 0
      if (accept === 0) {
        return respond(response, '2.05', { payload: Buffer.from('hello') })
      }
      return accept === 41 ? respond(response, '2.05', { payload: Buffer.from('<text>hello</text>'), format: XML }) : respond(response, '4.06')
    }
  },
  link1: read('link1'),
  link2: read('link2'),
  link3: read('link3'),
  path: read('</path/sub1>,</path/sub2>,</path/sub3>', LINK_FORMAT),
  'path/sub1': read('sub1'),
  'path/sub2': read('sub2'),
  'path/sub3': read('sub3'),
  '.well-known/core': {
    handle: (request, response) => respond(response, '2.05', { payload: Buffer.from(discover(request.url.split('?')[1])), format: LINK_FORMAT })
  },
  obs: new Document(Buffer.from('tick'), (count) => Buffer.from(`tick ${count}`)),
  'obs-non': new Document(Buffer.from('tick'), (count) => Buffer.from(`tick ${count}`)),
  'obs-large': new Document(LARGE, (count) => Buffer.concat([Buffer.from([97 + count % 26]), LARGE.subarray(1)]))
}

const [host, port] = process.argv.slice(2)
const isIPv6 = host.includes(':')
const server = coap.createServer({ type: isIPv6 ? 'udp6' : 'udp4' }, (request, response) => {
  if (request.code === '0.00') {
    // node-coap passes pings to the application.
    return response.reset()
  }
  const resource = resources[request.url.split('?')[0].slice(1)]
  return resource ? resource.handle(request, response) : respond(response, '4.04')
})
server.listen(Number(port), host, () => {
  console.log(`listening ${isIPv6 ? `[${host}]` : host}:${server._sock.address().port}`)
})
