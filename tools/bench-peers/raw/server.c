/* Baseline for servers, without a CoAP implementation: answers datagrams that look like requests with a
   piggybacked 2.05, the same message ID and token, and 60 bytes of payload, in batches.

   server PORT [PORTS]: the number of ports of 127.0.0.1, from PORT on. With several, a client has one
   open request per port, so nothing arrives in batches, and calls for one datagram cost a fifth less. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define BATCH 64
#define ROOM 1500
#define PAYLOAD 60
#define MOST_PORTS 1024

static struct mmsghdr messages[BATCH];
static struct iovec parts[BATCH];
static struct sockaddr_in peers[BATCH];
static uint8_t buffers[BATCH][ROOM];

/* Turns a request into a response in place; returns its length, or 0 if it is no request. */
static size_t answer(uint8_t *datagram, size_t length) {
  size_t head = 4 + (datagram[0] & 15);
  if (length < head || head > 12 || datagram[0] >> 6 != 1 || datagram[1] == 0 || datagram[1] > 31)
    return 0;
  int confirmable = (datagram[0] >> 4 & 3) == 0;
  datagram[0] = (uint8_t)((confirmable ? 0x60 : 0x50) | (datagram[0] & 15));
  datagram[1] = 0x45;
  datagram[head] = 0xff;
  memset(datagram + head + 1, 'x', PAYLOAD);
  return head + 1 + PAYLOAD;
}

/* Answers the datagrams of a socket; returns whether there may be more. */
static int serve(int socket) {
  for (int i = 0; i < BATCH; i++) {
    parts[i] = (struct iovec){.iov_base = buffers[i], .iov_len = ROOM};
    messages[i].msg_hdr = (struct msghdr){
        .msg_name = &peers[i], .msg_namelen = sizeof(peers[i]), .msg_iov = &parts[i], .msg_iovlen = 1};
  }
  int came = recvmmsg(socket, messages, BATCH, MSG_DONTWAIT, NULL), count = 0;
  for (int i = 0; i < came; i++) {
    parts[i].iov_len = answer(buffers[i], messages[i].msg_len);
    if (parts[i].iov_len)
      messages[count++].msg_hdr = messages[i].msg_hdr;
  }
  for (int sent = 0; sent < count;) {
    int more = sendmmsg(socket, messages + sent, (unsigned)(count - sent), 0);
    if (more > 0)
      sent += more;
    else if (errno != EINTR && errno != EAGAIN)
      sent++; /* A failed send is given up. */
  }
  return came == BATCH;
}

/* Same for one datagram of a socket without further ones; epoll reports later ones. */
static void serve_one(int socket) {
  socklen_t length = sizeof(peers[0]);
  ssize_t came = recvfrom(socket, buffers[0], ROOM, MSG_DONTWAIT, (struct sockaddr *)&peers[0], &length);
  size_t bytes = came > 0 ? answer(buffers[0], (size_t)came) : 0;
  if (bytes)
    sendto(socket, buffers[0], bytes, 0, (struct sockaddr *)&peers[0], length);
}

int main(int count, char **arguments) {
  int port = count > 1 ? atoi(arguments[1]) : 5683, ports = count > 2 ? atoi(arguments[2]) : 1;
  int poll = epoll_create1(0);
  for (int i = 0; i < ports && i < MOST_PORTS; i++) {
    int server = socket(AF_INET, SOCK_DGRAM, 0), room = 4 << 20;
    setsockopt(server, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(port + i))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(server, (struct sockaddr *)&address, sizeof(address))) {
      perror("bind");
      return 1;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.fd = server};
    epoll_ctl(poll, EPOLL_CTL_ADD, server, &event);
  }
  for (;;) {
    struct epoll_event events[64];
    int ready = epoll_wait(poll, events, 64, -1);
    for (int i = 0; i < ready; i++) {
      if (ports > 1)
        serve_one(events[i].data.fd);
      else
        while (serve(events[i].data.fd))
          ;
    }
  }
}
