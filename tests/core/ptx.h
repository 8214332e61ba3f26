/* The machine that kernels of `ptx.py` run on: threads as fibers, on CPU memory.

A program has one to WARPS warps of 32 threads. Some programs are resident at a time. Before a thread
touches global memory it may be put aside for another one, by the seed of the launch, so
every seed is another interleaving of one that a GPU may choose. Memory is sequentially
consistent: reorderings of weak memory are not seen.

Kernels include this file; RUNTIME makes the library that all of them share. */

#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t u64;
typedef int64_t s64;
typedef uint32_t u32;
typedef int32_t s32;
typedef uint16_t u16;
typedef int16_t s16;
typedef uint8_t u8;
typedef int8_t s8;
typedef __int128 s128;
typedef unsigned __int128 u128;

#define WARPS 4 /* at most */
#define THREADS (WARPS * 32)
#define MANY 0xFFFFFFFFu

enum { READY, AT_BARRIER, IN_WARP, ENDED };
enum { READ, WRITE, ATOMIC };

typedef struct Program Program;

typedef struct {
    void *stack_pointer;
    char *stack;
    Program *program;
    u32 id, reads;
    int state;
} Thread;

typedef struct {
    u32 given[32], taken[32];
    int arrived, live;
} Warp;

struct Program {
    u32 id, x, y, z;
    u32 epoch; /* barriers that are behind it */
    int live, waiting, used;
    char *shared;
    Thread threads[THREADS];
    Warp warps[WARPS];
};

extern Thread *now;         /* the thread that runs */
extern u64 *arguments;      /* of the kernel */
extern u32 grid[3];
extern u32 switching;       /* of 256 accesses, those that another thread precedes */
extern u64 random_state;
extern int trapped, watching; /* bits: for races, for traffic */
extern u64 executed;          /* instructions, of all threads */

void switch_thread(void);
void see(u64 at, u32 size, int kind, int same, const char *site);
void barrier(void);
u32 shuffle(int mode, u32 value, u32 lane, u32 bounds);
u32 reduce(int operation, u32 value);
u32 matrix(int number, u32 at);

static inline u32 draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (u32)(random_state >> 16);
}

static inline void maybe_switch(void) {
    if (draw() % 256 < switching) switch_thread();
}

static inline double f64_of(u64 bits) { double v; memcpy(&v, &bits, 8); return v; }
static inline u64 bits_of_f64(double v) { u64 bits; memcpy(&bits, &v, 8); return bits; }
static inline float f32_of(u32 bits) { float v; memcpy(&v, &bits, 4); return v; }
static inline float bf16_of(u16 bits) { return f32_of((u32)bits << 16); }
static inline float f16_of(u16 bits) { _Float16 v; memcpy(&v, &bits, 2); return v; }
static inline u32 bits_of_f32(float v) { u32 bits; memcpy(&bits, &v, 4); return bits; }

#define LOAD(T, at, site) ({ \
    u64 a_ = (at); T v_; \
    maybe_switch(); \
    if (watching) see(a_, sizeof(T), READ, 0, site); \
    memcpy(&v_, (void *)a_, sizeof(T)); v_; })
#define STORE(T, at, value, site) do { \
    u64 a_ = (at); T v_ = (T)(value); \
    maybe_switch(); \
    if (watching) see(a_, sizeof(T), WRITE, !memcmp(&v_, (void *)a_, sizeof(T)), site); \
    memcpy((void *)a_, &v_, sizeof(T)); } while (0)
#define UPDATE(T, at, change, site) ({ \
    u64 a_ = (at); T old_, new_; \
    maybe_switch(); \
    if (watching) see(a_, sizeof(T), ATOMIC, 0, site); \
    memcpy(&old_, (void *)a_, sizeof(T)); new_ = (change); \
    memcpy((void *)a_, &new_, sizeof(T)); old_; })
#define SHARED(at) (now->program->shared + (u32)(at))
#define LOAD_SHARED(T, at) ({ T v_; memcpy(&v_, SHARED(at), sizeof(T)); v_; })
#define STORE_SHARED(T, at, value) do { \
    T v_ = (T)(value); memcpy(SHARED(at), &v_, sizeof(T)); } while (0)

#ifdef RUNTIME

#define STACK (1 << 17)

Thread *now;
u64 *arguments, random_state;
u32 grid[3], switching;
int trapped, watching;
u64 executed;
static u32 threads; /* of a program */
static void *scheduler;
static void (*kernel)(void);

void swap_stacks(void **save, void *to);
__asm__(".text\n.globl swap_stacks\n.type swap_stacks,@function\nswap_stacks:\n"
        " push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
        " mov %rsp,(%rdi)\n mov %rsi,%rsp\n"
        " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n");

void switch_thread(void) { swap_stacks(&now->stack_pointer, scheduler); }

/* ---- races: two accesses to a place, one of them a write and not both atomic, of two
programs, or of two threads of a program between the same barriers. */

typedef struct {
    u32 program, thread, epoch; /* MANY once there were several */
    const char *site;           /* of the last one; NULL if there was none */
} Access;

typedef struct {
    u64 place;
    u32 launch;
    Access by[3];
} Cell;

typedef struct {
    const char *site, *other;
    u32 kinds, across, same;
    u64 count;
} Race;

#define MOST_RACES 256
static Cell *cells;
static u64 room, filled;
static u32 launch;
static Race races[MOST_RACES];
static int found_races;

static Cell *cell_of(u64 place) {
    for (u64 at = (place * 0x9E3779B97F4A7C15ull) >> 20;; at++) {
        Cell *cell = &cells[at & (room - 1)];
        if (cell->launch != launch) {
            memset(cell, 0, sizeof *cell);
            cell->place = place;
            cell->launch = launch;
            filled++;
            return cell;
        }
        if (cell->place == place) return cell;
    }
}

static void make_room(void) {
    if (cells && filled * 2 < room) return;
    Cell *before = cells;
    u64 size = room;
    room = room ? room * 4 : 1 << 16;
    cells = calloc(room, sizeof(Cell));
    filled = 0;
    for (u64 i = 0; i < size; i++)
        if (before[i].launch == launch) *cell_of(before[i].place) = before[i];
    free(before);
}

static int ordered(Access *other) {
    if (!other->site) return 1;
    if (other->program != now->program->id) return 0;
    return other->thread == now->id || other->epoch != now->program->epoch;
}

static void note(Access *own, const char *site) {
    Program *program = now->program;
    if (!own->site) {
        own->program = program->id;
        own->thread = now->id;
    } else if (own->program != program->id) {
        own->program = MANY;
    } else if (own->epoch != program->epoch) {
        own->thread = now->id;
    } else if (own->thread != now->id) {
        own->thread = MANY;
    }
    own->epoch = program->epoch;
    own->site = site;
}

static void report(const char *site, Access *other, u32 kinds, u32 same) {
    u32 across = other->program != now->program->id;
    int i = 0;
    for (; i < found_races; i++) {
        Race *race = &races[i];
        if (race->site == site && race->other == other->site && race->kinds == kinds &&
            race->across == across && race->same == same) break;
    }
    if (i == MOST_RACES) i--; /* the rest are counted as the last one */
    if (i == found_races) 
        races[found_races++] = (Race){site, other->site, kinds, across, same, 0};
    races[i].count++;
}

static void see_place(u64 place, int kind, int same, const char *site) {
    make_room();
    Cell *cell = cell_of(place);
    for (int other = READ; other <= ATOMIC; other++) {
        if (kind == other && kind != WRITE) continue;
        if (!ordered(&cell->by[other]))
            report(site, &cell->by[other], kind * 3 + other, same && other == WRITE);
    }
    note(&cell->by[kind], site);
}

/* ---- traffic: what the lanes of a warp touch at one line of a kernel comes in sectors
of 32 bytes, each once; a lane that is there again begins another access. */

typedef struct {
    u64 sector;
    const char *site;
    u32 launch, warp, lanes;
} Touch;

static Touch *touches;
static u64 touch_room, touched;
static u64 sectors;
static u32 longest_chain; /* of reads of one thread */

static Touch *touch_of(u64 sector, u32 warp, const char *site) {
    u64 hash = (sector * 0x9E3779B97F4A7C15ull ^ (u64)site * 0xD6E8FEB86659FD93ull) + warp;
    for (u64 at = hash * 0x9E3779B97F4A7C15ull >> 20;; at++) {
        Touch *touch = &touches[at & (touch_room - 1)];
        if (touch->launch != launch) {
            *touch = (Touch){sector, site, launch, warp, 0};
            touched++;
            return touch;
        }
        if (touch->sector == sector && touch->site == site && touch->warp == warp)
            return touch;
    }
}

static void widen_touches(void) {
    if (touches && touched * 2 < touch_room) return;
    Touch *before = touches;
    u64 size = touch_room;
    touch_room = size ? size * 4 : 1 << 16;
    touches = calloc(touch_room, sizeof(Touch));
    touched = 0;
    for (u64 i = 0; i < size; i++)
        if (before[i].launch == launch)
            *touch_of(before[i].sector, before[i].warp, before[i].site) = before[i];
    free(before);
}

static void count_traffic(u64 at, int kind, const char *site) {
    widen_touches();
    u32 lane = 1u << (now->id % 32);
    Touch *touch = touch_of(at / 32, now->program->id * WARPS + now->id / 32, site);
    if (!touch->lanes || (touch->lanes & lane)) {
        sectors += kind == ATOMIC ? 2 : 1;
        touch->lanes = 0;
    }
    touch->lanes |= lane;
    if (kind == READ && ++now->reads > longest_chain) longest_chain = now->reads;
}

/* Of the last launch: instructions of all threads, sectors, the most reads of a thread. */
void work(u64 *found) {
    found[0] = executed;
    found[1] = sectors;
    found[2] = longest_chain;
}

void see(u64 at, u32 size, int kind, int same, const char *site) {
    if (watching & 2) count_traffic(at, kind, site);
    if (!(watching & 1)) return;
    if (size < 4) /* bytes have places of their own: neighbours are no race */
        for (u64 i = at; i < at + size; i++) see_place(i << 1 | 1, kind, same, site);
    else
        for (u64 i = at; i < at + size; i += 4) see_place(i << 1, kind, same, site);
}

/* ---- barriers, and what the lanes of a warp tell each other */

static void open_barrier(Program *program) {
    program->waiting = 0;
    program->epoch++;
    for (u32 i = 0; i < threads; i++)
        if (program->threads[i].state == AT_BARRIER) program->threads[i].state = READY;
}

void barrier(void) {
    Program *program = now->program;
    now->state = AT_BARRIER;
    if (++program->waiting == program->live) {
        open_barrier(program);
        maybe_switch();
    } else {
        switch_thread();
    }
}

static u32 *exchange(u32 value) {
    u32 number = now->id / 32;
    Warp *warp = &now->program->warps[number];
    warp->given[now->id % 32] = value;
    now->state = IN_WARP;
    if (++warp->arrived == warp->live) {
        warp->arrived = 0;
        memcpy(warp->taken, warp->given, sizeof warp->given);
        Thread *lanes = &now->program->threads[number * 32];
        for (int i = 0; i < 32; i++)
            if (lanes[i].state == IN_WARP) lanes[i].state = READY;
    } else {
        switch_thread();
    }
    return warp->taken;
}

u32 shuffle(int mode, u32 value, u32 by, u32 bounds) {
    u32 *all = exchange(value);
    int lane = now->id % 32, segment = bounds >> 8 & 31, clamp = bounds & 31;
    int low = lane & segment, high = low | (clamp & ~segment), from;
    if (mode == 0) from = lane - (int)by;
    else if (mode == 1) from = lane + (int)by;
    else if (mode == 2) from = lane ^ (int)by;
    else from = low | ((int)by & ~segment);
    return all[(mode == 0 ? from >= high : from <= high) ? from : lane];
}

/* The lane's pair of halves of an 8 × 8 matrix in shared memory, whose row i is where
lane 8 * number + i says. */
u32 matrix(int number, u32 at) {
    u32 *rows = exchange(at), lane = now->id % 32;
    return LOAD_SHARED(u32, rows[8 * number + lane / 4] + lane % 4 * 4);
}

u32 reduce(int operation, u32 value) {
    u32 *all = exchange(value), result = all[0];
    for (int i = 1; i < 32; i++) {
        if (operation == 0) result += all[i];
        else if ((s32)all[i] > (s32)result) result = all[i];
    }
    return result;
}

/* ---- programs */

static void run_thread(void) {
    kernel();
    Program *program = now->program;
    now->state = ENDED;
    program->live--;
    program->warps[now->id / 32].live--;
    if (program->live && program->waiting == program->live) open_barrier(program);
    switch_thread();
    abort();
}

static void start(Program *program, u32 id, u32 shared) {
    program->id = id;
    program->x = id % grid[0];
    program->y = id / grid[0] % grid[1];
    program->z = id / grid[0] / grid[1];
    program->epoch = program->waiting = 0;
    program->live = threads;
    program->used = 1;
    program->shared = realloc(program->shared, shared + 64);
    memset(program->shared, 0xA5, shared + 64); /* nobody may rely on zeros */
    for (int i = 0; i < WARPS; i++) program->warps[i] = (Warp){.live = 32};
    for (u32 i = 0; i < threads; i++) {
        Thread *thread = &program->threads[i];
        if (!thread->stack) thread->stack = malloc(STACK);
        u64 *top = (u64 *)((u64)(thread->stack + STACK) & ~15ull);
        *--top = 0;
        *--top = (u64)run_thread;
        for (int k = 0; k < 6; k++) *--top = 0; /* the registers of `swap_stacks` */
        thread->stack_pointer = top;
        thread->program = program;
        thread->id = i;
        thread->reads = 0;
        thread->state = READY;
    }
}

static Thread *choose(Program *program) {
    u32 first = draw();
    for (u32 i = 0; i < threads; i++) {
        Thread *thread = &program->threads[(first + i) % threads];
        if (thread->state == READY) return thread;
    }
    return NULL;
}

/* An access that the system refuses ends the launch, not the process. */
static void end_launch(int signal) {
    (void)signal;
    trapped = 3;
    switch_thread();
}

/* 0, 1 after a trap, 2 where no thread of a program can go on, 3 after an access to
memory that is not there. */
int run(void (*code)(void), u64 *given, u32 *sizes, u32 warps, u32 shared, u64 seed,
        u32 often, u32 resident, int watch) {
    static Program *programs;
    static u32 made;
    u32 count = sizes[0] * sizes[1] * sizes[2], next = 0, active = 0;
    kernel = code;
    threads = warps * 32;
    arguments = given;
    memcpy(grid, sizes, sizeof grid);
    random_state = seed * 0x9E3779B97F4A7C15ull + 1;
    switching = often;
    watching = watch;
    trapped = found_races = 0;
    filled = touched = executed = sectors = longest_chain = 0;
    launch++;
    u32 *order = malloc(count * sizeof *order);
    for (u32 i = 0; i < count; i++) {
        u32 j = draw() % (i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    if (resident > made) {
        free(programs); /* of fewer: their stacks are lost, once or twice */
        programs = calloc(resident, sizeof *programs);
        made = resident;
    }
    if (resident > count) resident = count;
    struct sigaction ours = {.sa_handler = end_launch, .sa_flags = SA_NODEFER};
    struct sigaction before, bus_before;
    sigaction(SIGSEGV, &ours, &before);
    sigaction(SIGBUS, &ours, &bus_before);
    while (active < resident) start(&programs[active++], order[next++], shared);
    while (active && !trapped) {
        Program *program = &programs[draw() % resident];
        while (!program->used)
            if (++program == programs + resident) program = programs;
        now = choose(program);
        if (!now) break;
        swap_stacks(&scheduler, now->stack_pointer);
        if (program->live) continue;
        program->used = 0;
        active--;
        if (next < count) start(program, order[next++], shared), active++;
    }
    for (u32 i = 0; i < resident; i++) programs[i].used = 0;
    sigaction(SIGSEGV, &before, NULL);
    sigaction(SIGBUS, &bus_before, NULL);
    free(order);
    return trapped ? trapped : active ? 2 : 0;
}

int race(int number, const char **sites, u64 *numbers) {
    if (number >= found_races) return 0;
    Race *race = &races[number];
    sites[0] = race->site;
    sites[1] = race->other;
    numbers[0] = race->kinds;
    numbers[1] = race->across;
    numbers[2] = race->same;
    numbers[3] = race->count;
    return 1;
}

#endif
