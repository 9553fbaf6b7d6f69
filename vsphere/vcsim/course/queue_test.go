package course

import (
	"testing"
	"testing/synctest"
	"time"
)

func runs(t *Ticket) bool {
	select {
	case <-t.Turn():
		return true
	default:
		return false
	}
}

func enter(q *Queue, n int, c Claim) (all []*Ticket) {
	for range n {
		all = append(all, q.Enter(c))
	}
	return all
}

func count(all []*Ticket) (n int) {
	for _, t := range all {
		if runs(t) {
			n++
		}
	}
	return n
}

func TestWithoutLimitsAllRun(t *testing.T) {
	if n := count(enter(new(Queue), 1000, Clone("host-1", "host-2", false))); n != 1000 {
		t.Errorf("%d run", n)
	}
}

func TestAHostCarriesOutFourFullClonesOrSixteenLinkedOnes(t *testing.T) {
	q := new(Queue)
	q.SetLimits(Limits{HostUnits: 16})
	full, linked := enter(q, 6, Clone("host-1", "host-1", false)), enter(q, 20, Clone("host-2", "", true))
	if count(full) != 4 || count(linked) != 16 {
		t.Fatalf("%d full ones and %d linked ones run", count(full), count(linked))
	}
	full[0].Leave()
	if !runs(full[4]) || runs(full[5]) {
		t.Error("the one that waited longest comes next")
	}
	full[5].Leave() // it was cancelled
	for _, ticket := range full[1:5] {
		ticket.Leave()
	}
	if n := count(enter(q, 5, Clone("host-1", "", false))); n != 4 {
		t.Errorf("%d run on a host with nothing else", n)
	}
	if !runs(q.Enter(Clone("host-3", "", false))) || !runs(q.Enter(nil)) {
		t.Error("others wait for a busy host")
	}
}

func TestOperationsBeyondTheBoundWaitUntilItRises(t *testing.T) {
	q := new(Queue)
	q.SetLimits(Limits{Operations: 3, HostUnits: 2})
	all := enter(q, 5, Clone("host-1", "host-2", false))
	if count(all) != 1 {
		t.Fatalf("%d run that need more than a host has", count(all))
	}
	others := enter(q, 5, nil)
	if count(others) != 2 {
		t.Fatalf("%d run", count(others)+1)
	}
	q.SetLimits(Limits{})
	if count(all) != 5 || count(others) != 5 {
		t.Error("there are no limits any more")
	}
}

func TestSoManyStartInASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, began := new(Queue), time.Now()
		q.SetLimits(Limits{PerSecond: 10})
		all := enter(q, 21, nil)
		if count(all) != 21 || all[20].At.Sub(began) != 2*time.Second {
			t.Errorf("%s", all[20].At.Sub(began))
		}
		time.Sleep(5 * time.Second)
		if last := q.Enter(nil); !last.At.Equal(time.Now()) {
			t.Errorf("%s late", time.Until(last.At))
		}
	})
}
