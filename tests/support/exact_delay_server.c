/*
 * An OpenAI-compatible server on loopback whose delays are known exactly.
 *
 *     exact_delay_server [-p PORT] [-d DELAY_US] [-g GAP_US] [-n CHUNKS]
 *
 * Prints its port on the first line (port 0, the default, picks a free one) and ends when its standard input is closed.
 *
 * POST anything       a chat completion. The fields "delay_us", "gap_us" and "chunks" of the request's body override the
 *                     options. A plain reply comes DELAY_US after the request was read. A stream answers at once with a
 *                     chunk that holds only the role, sends its first token after DELAY_US and each further one GAP_US
 *                     later; every token's chunk carries "t", the time just before it was written.
 * GET  /log           one JSON object per completed reply: "id" (also the reply's x-request-id), "stream", and the times
 *                     "received" (the request was read), "first" and "last" (just before the first and the last token).
 * GET  anything else  the list of models.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC, which is what Python's time.monotonic_ns() reads on Linux.
 *
 * One thread, one epoll. Every connection has a timerfd armed with an absolute time, so a late wake-up delays one token
 * and never shifts those after it.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { READ_SIZE = 65536, EVENTS = 256, PROMPT_TOKENS = 42, NS_PER_US = 1000, NS_PER_S = 1000000000 };

struct plan {
    long delay_us, gap_us, chunks;
};

struct buffer {
    char *data; /* always ends with a NUL behind its last byte */
    size_t length, capacity;
};

struct connection;

/* What epoll hands back: which descriptor of which connection. */
struct watch {
    enum { LISTENER, PARENT, SOCKET, TIMER } kind;
    struct connection *connection;
};

struct connection {
    int socket, timer;
    struct watch on_socket, on_timer;
    struct buffer in, out;
    bool busy, stream, closed, wants_write;
    struct plan plan;
    long next_chunk;
    uint64_t id;
    int64_t received, due, first;
    struct connection *next_closed;
};

struct served {
    uint64_t id;
    bool stream;
    int64_t received, first, last;
};

static struct plan defaults = {.delay_us = 0, .gap_us = 0, .chunks = 16};
static int epoll;
static uint64_t requests;
static struct served *served;
static size_t served_count, served_capacity;
static struct connection *closed; /* freed after each batch of events, which may still name them */

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static void *grown(void *memory, size_t size)
{
    memory = realloc(memory, size);
    if (memory == NULL) {
        perror("realloc");
        exit(1);
    }
    return memory;
}

/* ---- buffers ---- */

static void reserve(struct buffer *b, size_t more)
{
    if (b->length + more + 1 > b->capacity) {
        b->capacity = (b->length + more + 1) * 2;
        b->data = grown(b->data, b->capacity);
    }
}

__attribute__((format(printf, 2, 3))) static void append(struct buffer *b, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    reserve(b, (size_t)size);
    va_start(arguments, format);
    vsnprintf(b->data + b->length, (size_t)size + 1, format, arguments);
    va_end(arguments);
    b->length += (size_t)size;
}

static void discard(struct buffer *b, size_t count)
{
    b->length -= count;
    memmove(b->data, b->data + count, b->length + 1);
}

/* ---- connections ---- */

static void watch_descriptor(int descriptor, struct watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};
    epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
}

static void close_connection(struct connection *c)
{
    if (c->closed)
        return;
    c->closed = true;
    close(c->socket);
    close(c->timer);
    c->next_closed = closed;
    closed = c;
}

static void free_closed(void)
{
    while (closed != NULL) {
        struct connection *c = closed;
        closed = c->next_closed;
        free(c->in.data);
        free(c->out.data);
        free(c);
    }
}

/* Write what the socket takes; epoll tells when it takes the rest. */
static void flush(struct connection *c)
{
    while (c->out.length > 0) {
        ssize_t sent = send(c->socket, c->out.data, c->out.length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN) {
            close_connection(c);
            return;
        }
        if (sent < 0)
            break;
        discard(&c->out, (size_t)sent);
    }
    bool wants_write = c->out.length > 0;
    if (wants_write != c->wants_write) {
        c->wants_write = wants_write;
        struct epoll_event event = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0), .data.ptr = &c->on_socket};
        epoll_ctl(epoll, EPOLL_CTL_MOD, c->socket, &event);
    }
}

static void accept_all(int listener)
{
    for (;;) {
        int socket = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (socket < 0)
            return;
        int on = 1;
        setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct connection *c = grown(NULL, sizeof *c);
        *c = (struct connection){.socket = socket, .timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK)};
        if (c->timer < 0) {
            perror("timerfd_create");
            exit(1);
        }
        c->on_socket = (struct watch){SOCKET, c};
        c->on_timer = (struct watch){TIMER, c};
        watch_descriptor(c->socket, &c->on_socket);
        watch_descriptor(c->timer, &c->on_timer);
    }
}

/* ---- replies ---- */

static void send_json(struct connection *c, const char *status, const char *headers, const struct buffer *body)
{
    append(&c->out, "HTTP/1.1 %s\r\nContent-Type: application/json\r\n%sContent-Length: %zu\r\n\r\n%s", status, headers,
           body->length, body->data);
    flush(c);
}

static void send_models(struct connection *c)
{
    struct buffer body = {0};
    append(&body, "{\"object\":\"list\",\"data\":[{\"id\":\"exact\",\"object\":\"model\",\"created\":1700000000,"
                  "\"owned_by\":\"local\"}]}");
    send_json(c, "200 OK", "", &body);
    free(body.data);
}

static void send_log(struct connection *c)
{
    struct buffer body = {0};
    append(&body, "[");
    for (size_t i = 0; i < served_count; i++)
        append(&body, "%s{\"id\":\"req-%lu\",\"stream\":%s,\"received\":%ld,\"first\":%ld,\"last\":%ld}", i ? "," : "",
               served[i].id, served[i].stream ? "true" : "false", served[i].received, served[i].first, served[i].last);
    append(&body, "]");
    send_json(c, "200 OK", "", &body);
    free(body.data);
}

static void note_served(const struct connection *c, int64_t last)
{
    if (served_count == served_capacity) {
        served_capacity = served_capacity ? served_capacity * 2 : 1024;
        served = grown(served, served_capacity * sizeof *served);
    }
    served[served_count++] = (struct served){c->id, c->stream, c->received, c->first, last};
}

static void append_usage(struct buffer *b, long completion_tokens)
{
    append(b, "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%ld,\"total_tokens\":%ld}", PROMPT_TOKENS,
           completion_tokens, PROMPT_TOKENS + completion_tokens);
}

static void send_plain_reply(struct connection *c)
{
    struct buffer body = {0};
    append(&body, "{\"id\":\"chatcmpl-%lu\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"exact\","
                  "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"", c->id);
    for (long i = 0; i < c->plan.chunks; i++)
        append(&body, " token");
    append(&body, "\"},\"finish_reason\":\"stop\"}],");
    append_usage(&body, c->plan.chunks);
    append(&body, "}");
    char headers[64];
    snprintf(headers, sizeof headers, "x-request-id: req-%lu\r\n", c->id);
    c->first = now();
    note_served(c, c->first);
    c->busy = false;
    send_json(c, "200 OK", headers, &body);
    free(body.data);
}

/* One event in an HTTP chunk of its own. `members` follow those that every event has. */
static void append_event(struct connection *c, const char *members)
{
    struct buffer event = {0};
    append(&event, "data: {\"id\":\"chatcmpl-%lu\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,"
                   "\"model\":\"exact\",%s}\n\n", c->id, members);
    append(&c->out, "%zx\r\n%s\r\n", event.length, event.data);
    free(event.data);
}

static void start_stream(struct connection *c)
{
    append(&c->out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nx-request-id: req-%lu\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n", c->id);
    append_event(c, "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},"
                    "\"finish_reason\":null}]");
    flush(c);
}

static void finish_stream(struct connection *c)
{
    append_event(c, "\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]");
    struct buffer usage = {0};
    append(&usage, "\"choices\":[],");
    append_usage(&usage, c->plan.chunks);
    append_event(c, usage.data);
    free(usage.data);
    append(&c->out, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
}

static void send_token(struct connection *c)
{
    int64_t t = now();
    char members[160];
    snprintf(members, sizeof members,
             "\"t\":%ld,\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"finish_reason\":null}]", t);
    append_event(c, members);
    if (c->next_chunk++ == 0)
        c->first = t;
    if (c->next_chunk == c->plan.chunks) {
        note_served(c, t);
        c->busy = false;
        finish_stream(c);
    }
    flush(c);
}

/* ---- time ---- */

static void arm(struct connection *c)
{
    /* A timer set to zero would be disarmed; a due time is never zero, and one that has passed fires at once. */
    struct itimerspec when = {.it_value = {.tv_sec = c->due / NS_PER_S, .tv_nsec = c->due % NS_PER_S}};
    timerfd_settime(c->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void on_due(struct connection *c)
{
    uint64_t expirations;
    if (read(c->timer, &expirations, sizeof expirations) < 0)
        return;
    if (!c->stream) {
        send_plain_reply(c);
        return;
    }
    send_token(c);
    if (c->busy && !c->closed) {
        c->due += c->plan.gap_us * NS_PER_US;
        arm(c);
    }
}

/* ---- requests ---- */

/* The number behind `"name":` in a JSON text; the text is ours or a test's, so the first match is the right one. */
static long number_in(const char *json, const char *name, long fallback)
{
    char key[32];
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *found = strstr(json, key);
    return found ? strtol(found + strlen(key), NULL, 10) : fallback;
}

static void begin_completion(struct connection *c, const char *body, int64_t received)
{
    c->id = requests++;
    c->busy = true;
    c->received = received;
    c->next_chunk = 0;
    c->stream = strstr(body, "\"stream\":true") || strstr(body, "\"stream\": true");
    c->plan.delay_us = number_in(body, "delay_us", defaults.delay_us);
    c->plan.gap_us = number_in(body, "gap_us", defaults.gap_us);
    c->plan.chunks = number_in(body, "chunks", defaults.chunks);
    if (c->plan.chunks < 1)
        c->plan.chunks = 1;
    c->due = received + c->plan.delay_us * NS_PER_US;
    arm(c);
    if (c->stream)
        start_stream(c);
}

static void answer(struct connection *c, const char *head, const char *body)
{
    int64_t received = now();
    if (strncmp(head, "GET /log ", 9) == 0)
        send_log(c);
    else if (strncmp(head, "GET ", 4) == 0)
        send_models(c);
    else
        begin_completion(c, body, received);
}

/* Answer the requests that have come in whole; a connection that is busy with one keeps the others waiting. */
static void take_requests(struct connection *c)
{
    while (!c->busy && !c->closed && c->in.length > 0) {
        char *end = strstr(c->in.data, "\r\n\r\n");
        if (end == NULL)
            return;
        end[2] = '\0';
        const char *length_header = strcasestr(c->in.data, "\r\ncontent-length:");
        size_t body_size = length_header ? strtoul(length_header + 17, NULL, 10) : 0;
        char *body = end + 4;
        size_t size = (size_t)(body - c->in.data) + body_size;
        if (c->in.length < size) {
            end[2] = '\r';
            return;
        }
        char behind = body[body_size];
        body[body_size] = '\0';
        answer(c, c->in.data, body);
        body[body_size] = behind;
        discard(&c->in, size);
    }
}

static void on_readable(struct connection *c)
{
    for (;;) {
        reserve(&c->in, READ_SIZE);
        ssize_t got = recv(c->socket, c->in.data + c->in.length, READ_SIZE, 0);
        if (got < 0 && errno == EAGAIN)
            break;
        if (got <= 0) {
            close_connection(c);
            return;
        }
        c->in.length += (size_t)got;
        c->in.data[c->in.length] = '\0';
    }
    take_requests(c);
}

static void on_event(const struct epoll_event *event, int listener)
{
    struct watch *watch = event->data.ptr;
    struct connection *c = watch->connection;
    if (watch->kind == PARENT)
        exit(0);
    if (watch->kind == LISTENER) {
        accept_all(listener);
        return;
    }
    if (!c->closed && watch->kind == TIMER)
        on_due(c);
    if (!c->closed && watch->kind == SOCKET && event->events & EPOLLOUT)
        flush(c);
    if (!c->closed && watch->kind == SOCKET && event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        on_readable(c);
    if (!c->closed)
        take_requests(c);
}

/* ---- start ---- */

static int listen_on(int port)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    int on = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 16384) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) < 0) {
        perror("listen");
        exit(1);
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

static int read_options(int count, char **values)
{
    int port = 0, option;
    while ((option = getopt(count, values, "p:d:g:n:")) != -1) {
        if (option == 'p')
            port = atoi(optarg);
        else if (option == 'd')
            defaults.delay_us = atol(optarg);
        else if (option == 'g')
            defaults.gap_us = atol(optarg);
        else if (option == 'n')
            defaults.chunks = atol(optarg);
        else
            exit(2);
    }
    return port;
}

int main(int argc, char **argv)
{
    int port = read_options(argc, argv);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);

    epoll = epoll_create1(0);
    int listener = listen_on(port);
    struct watch on_listener = {LISTENER, NULL}, on_parent = {PARENT, NULL};
    watch_descriptor(listener, &on_listener);
    watch_descriptor(STDIN_FILENO, &on_parent);
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, -1);
        if (count < 0 && errno != EINTR) {
            perror("epoll_wait");
            return 1;
        }
        for (int i = 0; i < count; i++)
            on_event(&events[i], listener);
        free_closed();
    }
}
