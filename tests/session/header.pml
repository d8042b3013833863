/* The header protocol of src/session/header.h under weak memory. Spin itself is sequentially
 * consistent, so what may reorder is spelled out:
 *  - the writer's stores wait in a buffer and become visible in any order (as non-temporal stores
 *    on x86 and all stores on ARM do); only a fence waits for the buffer to drain, and a release
 *    store for all stores before it. Stores to one place stay in order.
 *  - the words of one header, and the words of the data, are read in any order; the reader's
 *    program waits for the first header, then for the data, then reads the header again.
 *
 * SLOTS=1 is an in-place publisher, SLOTS=2 a snapshot publisher. Each mutant below removes one
 * element and must be found wrong:
 *   NO_FENCE_A      the odd epoch may become visible after changed weights
 *   NO_FENCE_B      the even epoch may become visible before the weights (a release store alone
 *                   does not wait for non-temporal stores)
 *   NO_SECOND       the reader does not look at the header again
 *   SECOND_EARLY    the second look does not wait for the data
 *   FIRST_LATE      the data does not wait for the first header
 *   REACHABLE       asserts that nothing is ever accepted: shows that the model accepts something
 */
#ifndef SLOTS
#define SLOTS 1
#endif
#define UPDATES (SLOTS + 1) /* one slot is overwritten */
#define READS 1 /* a reader keeps nothing from one attempt to the next */

#define WORDS 5
#define EPOCH(s) ((s) * WORDS)
#define NUMBER(s) ((s) * WORDS + 1) /* of the header's other words, two are modelled */
#define OTHER(s) ((s) * WORDS + 2)
#define DATA0(s) ((s) * WORDS + 3)
#define DATA1(s) ((s) * WORDS + 4)
#define PLACES (SLOTS * WORDS)

byte memory[PLACES];
byte buffered[PLACES]; /* value of a store that is not visible yet */
bool waiting[PLACES];
byte pending = 0;
bool writer_done = false;

inline store(place, value) {
  atomic {
    !waiting[place] -> /* stores to one place stay in order */
    buffered[place] = value;
    waiting[place] = true;
    pending++;
  }
}

inline fence() { pending == 0 }

active proctype drain() {
  byte place;
end:
  do
  :: pending > 0 ->
     atomic {
       select(place : 0 .. (PLACES - 1));
       if
       :: waiting[place] ->
          memory[place] = buffered[place];
          waiting[place] = false;
          pending--
       :: else -> skip
       fi
     }
  :: writer_done && pending == 0 -> break
  od
}

active proctype writer() {
  byte version = 1;
  byte epoch[SLOTS];
  byte slot;
  slot = 0;
  do
  :: slot < SLOTS -> epoch[slot] = 1; slot++
  :: else -> break
  od;
  do
  :: version <= UPDATES ->
     slot = version % SLOTS;
     if
     :: epoch[slot] % 2 == 0 -> epoch[slot]++; store(EPOCH(slot), epoch[slot])
     :: else -> skip
     fi;
#ifndef NO_FENCE_A
     fence();
#endif
     store(DATA0(slot), version);
     store(DATA1(slot), version);
#ifndef NO_FENCE_B
     fence();
#endif
     store(NUMBER(slot), version);
     store(OTHER(slot), version);
#ifndef NO_FENCE_B
     fence(); /* the release of the epoch */
#endif
     epoch[slot]++;
     store(EPOCH(slot), epoch[slot]);
     version++
  :: else -> break
  od;
  writer_done = true
}

#define FIRST 7
#define DATA 24
#define SECOND 224

#ifdef FIRST_LATE
#define DATA_MAY true
#else
#define DATA_MAY ((todo & FIRST) == 0)
#endif
#ifdef SECOND_EARLY
#define SECOND_MAY ((todo & FIRST) == 0)
#else
#define SECOND_MAY ((todo & (FIRST | DATA)) == 0)
#endif

#define EVEN (epoch1 != 0 && epoch1 % 2 == 0)
#ifdef NO_SECOND
#define SAME true
#else
#define SAME (epoch1 == epoch2 && number1 == number2 && other1 == other2)
#endif

active proctype reader() {
  byte reads = 0;
  byte slot;
  byte todo;
  byte epoch1, number1, other1, epoch2, number2, other2, data0, data1;
  do
  :: reads < READS ->
     atomic {
       select(slot : 0 .. (SLOTS - 1));
       todo = FIRST | DATA | SECOND;
       reads++;
     }
     do
     :: atomic { (todo & 1) != 0 -> epoch1 = memory[EPOCH(slot)]; todo = todo - 1 }
     :: atomic { (todo & 2) != 0 -> number1 = memory[NUMBER(slot)]; todo = todo - 2 }
     :: atomic { (todo & 4) != 0 -> other1 = memory[OTHER(slot)]; todo = todo - 4 }
     :: atomic { (todo & 8) != 0 && DATA_MAY -> data0 = memory[DATA0(slot)]; todo = todo - 8 }
     :: atomic { (todo & 16) != 0 && DATA_MAY -> data1 = memory[DATA1(slot)]; todo = todo - 16 }
     :: atomic { (todo & 32) != 0 && SECOND_MAY -> epoch2 = memory[EPOCH(slot)]; todo = todo - 32 }
     :: atomic { (todo & 64) != 0 && SECOND_MAY -> number2 = memory[NUMBER(slot)]; todo = todo - 64 }
     :: atomic { (todo & 128) != 0 && SECOND_MAY -> other2 = memory[OTHER(slot)]; todo = todo - 128 }
     :: atomic { todo == 0 -> break }
     od;
     atomic {
       if
       :: EVEN && SAME ->
#ifdef REACHABLE
          assert(false);
#endif
          assert(number1 == other1 && data0 == number1 && data1 == number1)
       :: else -> skip
       fi
     }
  :: else -> break
  od
}
