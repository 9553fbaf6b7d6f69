package probe

import (
	"container/heap"
	"context"
	"time"
)

// Run asks members until ctx ends, and returns when its goroutines have ended.
func (p *Prober) Run(ctx context.Context) {
	defer p.tries.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if wait, waits := p.begin(ctx); waits {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-timer.C:
		}
	}
}

// signal wakes Run.
func (p *Prober) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// begin asks the members that are due, as long as there are connections left. It returns how long to wait for the next member, if known.
func (p *Prober) begin(ctx context.Context) (wait time.Duration, waits bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.due) > 0 && p.running < p.cfg.AtOnce {
		now, t := time.Now(), p.due[0]
		if t.next.After(now) {
			return t.next.Sub(now), true
		}
		heap.Pop(&p.due)
		if t.gone {
			continue
		}
		g, at := p.groups[t.uid], p.paces[t.place]
		switch {
		case now.After(g.until):
			p.drop(t.uid, g)
		case at.busy, at.next.After(now), p.byNamespace[t.namespace] >= p.share():
			p.due.at(t, now.Add(addressGap+p.cfg.Jitter(time.Second)))
		default:
			at.busy, at.next = true, now.Add(addressGap)
			p.running++
			p.byNamespace[t.namespace]++
			p.asks(g, t)
			q := questionOf(&g.readiness, t.address)
			p.tries.Go(func() { p.end(ctx, t, at, now, p.ask(ctx, q)) })
		}
	}
	return 0, false
}

// share is how many connections the groups of one namespace can have at once: members that accept connections and say nothing leave the others to other
// tenants.
func (p *Prober) share() int { return max(1, p.cfg.AtOnce/2) }

// end records how a try ended.
func (p *Prober) end(ctx context.Context, t *target, at *pacing, began time.Time, o outcome) {
	now := time.Now()
	p.mu.Lock()
	p.running--
	if p.byNamespace[t.namespace]--; p.byNamespace[t.namespace] == 0 {
		delete(p.byNamespace, t.namespace)
	}
	if at.busy = false; at.targets == 0 && p.paces[t.place] == at {
		delete(p.paces, t.place)
	}
	p.signal()
	if ctx.Err() != nil { // the try was canceled, which says nothing about the member
		p.mu.Unlock()
		return
	}
	p.tried.WithLabelValues(o.result).Inc()
	p.took.WithLabelValues().Observe(now.Sub(began).Seconds())
	changed := false
	if g := p.groups[t.uid]; !t.gone {
		if o == answered {
			t.down = false
			changed = g.answer(t, began)
		} else {
			changed = p.fail(g, t, o.failure, now)
		}
		next := began.Add(period(g))
		if next.Before(now) {
			next = now
		}
		p.due.at(t, next)
	}
	p.mu.Unlock()
	if changed && p.cfg.Changed != nil {
		p.cfg.Changed(t.uid)
	}
}

// dues is a heap of members, by the time at which they are next due.
type dues []*target

func (d *dues) add(t *target) { heap.Push(d, t) }

func (d *dues) at(t *target, when time.Time) {
	t.next = when
	heap.Push(d, t)
}

// Len, Less, Swap, Push and Pop are heap.Interface's.
func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].next.Before(d[j].next) }
func (d dues) Swap(i, j int)      { d[i], d[j] = d[j], d[i] }
func (d *dues) Push(x any)        { *d = append(*d, x.(*target)) }
func (d *dues) Pop() any {
	last := len(*d) - 1
	t := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return t
}
