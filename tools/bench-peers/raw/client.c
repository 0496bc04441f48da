/* Baseline for clients, without a CoAP implementation: sends datagrams that look like a Confirmable
   GET of /test, one at a time per destination, and the next on any datagram from there. Sends and
   receives in batches, without state or retransmission. Arguments and output: ../README.md. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#define BATCH 64
#define ROOM 1500

static struct mmsghdr messages[BATCH];
static struct iovec parts[BATCH];
static struct sockaddr_in peers[BATCH];
static uint8_t buffers[BATCH][ROOM];

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Writes a request into the buffer of this number. */
static void request(int place) {
  static uint16_t id;
  id++;
  uint8_t *datagram = buffers[place];
  memcpy(datagram, (uint8_t[]){0x42, 1, (uint8_t)(id >> 8), (uint8_t)id, (uint8_t)(id >> 8), (uint8_t)id, 0xb4}, 7);
  memcpy(datagram + 7, "test", 4);
  parts[place].iov_len = 11;
}

/* Sends the requests in the first buffers. */
static void ask(int socket, int count) {
  for (int i = 0; i < count; i++)
    request(i);
  for (int sent = 0; sent < count;) {
    int more = sendmmsg(socket, messages + sent, (unsigned)(count - sent), 0);
    sent += more > 0 ? more : 1; /* A failed send is given up. */
  }
}

/* Receives responses and sends a request for each; returns their number. */
static int answers(int socket) {
  for (int i = 0; i < BATCH; i++) {
    parts[i] = (struct iovec){.iov_base = buffers[i], .iov_len = ROOM};
    messages[i].msg_hdr = (struct msghdr){
        .msg_name = &peers[i], .msg_namelen = sizeof(peers[i]), .msg_iov = &parts[i], .msg_iovlen = 1};
  }
  int came = recvmmsg(socket, messages, BATCH, MSG_DONTWAIT, NULL);
  if (came > 0)
    ask(socket, came);
  return came > 0 ? came : 0;
}

/* Runs for this time; returns the number of responses. */
static unsigned long answers_in(int socket, int poll, double seconds) {
  unsigned long answered = 0;
  for (double end = now() + seconds; now() < end;) {
    struct epoll_event event;
    epoll_wait(poll, &event, 1, 100);
    answered += (unsigned long)answers(socket);
  }
  return answered;
}

int main(int count, char **arguments) {
  if (count < 5)
    return 2;
  int port = atoi(arguments[1]), destinations = atoi(arguments[2]), room = 4 << 20;
  double warm_up = atof(arguments[3]), seconds = atof(arguments[4]);
  int client = socket(AF_INET, SOCK_DGRAM, 0), poll = epoll_create1(0);
  setsockopt(client, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
  struct epoll_event event = {.events = EPOLLIN};
  epoll_ctl(poll, EPOLL_CTL_ADD, client, &event);
  for (int i = 0; i < destinations; i++) {
    peers[0] = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)(port + i))};
    peers[0].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    parts[0].iov_base = buffers[0];
    messages[0].msg_hdr = (struct msghdr){
        .msg_name = &peers[0], .msg_namelen = sizeof(peers[0]), .msg_iov = &parts[0], .msg_iovlen = 1};
    ask(client, 1);
  }
  answers_in(client, poll, warm_up);
  printf("answered %lu\n", answers_in(client, poll, seconds));
  return 0;
}
