package vsphere

import (
	"context"
	"strings"
	"testing"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inflight"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

// withMember runs a test in a bubble, with a member that is off.
func withMember(t *testing.T, run func(*testing.T, *world, *process, plan.VM)) {
	t.Helper()
	inABubble(t, func(t *testing.T, w *world, p *process) {
		run(t, w, p, p.member(0))
	})
}

// begun carries out a step in the background.
func (p *process) begun(a plan.Action) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- p.Do(context.Background(), web, a) }()
	return ended
}

func TestAPowerOnReportsTheVMsQuestionAtOnceAndIsStalledAfterAMinute(t *testing.T) {
	withMember(t, func(t *testing.T, w *world, p *process, vm plan.VM) {
		w.Behave(func(b *vcsim.Behavior) {
			b.AskAtPowerOn, b.Question = func(vcsim.VM) bool { return true }, vcsim.MovedOrCopied
		})
		began, ended := time.Now(), p.begun(actionOn(plan.PowerOn, vm))
		p.until("the question is reported", func() bool { return p.vm(vm.MoRef).Question != "" })
		if q := p.vm(vm.MoRef).Question; !strings.Contains(q, "moved or copied") || !strings.HasSuffix(q, "(choices: Cancel, I Moved It, I Copied It)") || time.Since(began) > 10*time.Second {
			t.Errorf("got the question %q after %s; want the simulator's question and its choices within 10s", q, time.Since(began))
		}
		if s := p.state().Stalled; s != nil {
			t.Errorf("after %s, the state has the stalled members %v; want none", time.Since(began), s)
		}
		p.until("the power-on is stalled by a question", func() bool { return p.state().Stalled["web-0"].Reason == plan.ReasonQuestionPending })
		if took := time.Since(began); took < inflight.QuestionTimeout || took > inflight.QuestionTimeout+inflight.StallInterval {
			t.Errorf("the power-on was stalled after %s; want from %s to %s", took, inflight.QuestionTimeout, inflight.QuestionTimeout+inflight.StallInterval)
		}
		time.Sleep(time.Hour)
		w.must(w.Answer("web-0", "I Copied It"))
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if now := p.vm(vm.MoRef); now.Question != "" || now.Power != plan.PoweredOn || p.state().Stalled != nil {
			t.Errorf("got the member %+v, and the stalled members %v; want it on without a question, and none", now, p.state().Stalled)
		}
	})
}

func TestATaskWithoutProgressIsStalledAfterTenMinutes(t *testing.T) {
	withMember(t, func(t *testing.T, w *world, p *process, vm plan.VM) {
		w.Hold(vcsim.PowerOn)
		began, ended := time.Now(), p.begun(actionOn(plan.PowerOn, vm))
		p.until("the task is stalled", func() bool { return p.state().Stalled["web-0"].Reason == plan.ReasonTaskStalled })
		if took := time.Since(began); took < inflight.ProgressTimeout || took > inflight.ProgressTimeout+2*time.Minute {
			t.Errorf("the power-on was stalled after %s; want from %s to 2m more", took, inflight.ProgressTimeout)
		}
		w.Release(vcsim.PowerOn)
		if err := <-ended; err != nil || p.state().Stalled != nil {
			t.Errorf("got the error %v, and the stalled members %v; want neither", err, p.state().Stalled)
		}
	})
}

func TestAQuestionWithoutMessagesIsReportedByItsTextInOneLine(t *testing.T) {
	withMember(t, func(t *testing.T, w *world, p *process, vm plan.VM) {
		w.must(w.Ask("web-0", vcsim.Question{Text: "Line one\n\nline two", Choices: []string{"Yes", "No"}}))
		p.until("the question is reported", func() bool { return p.vm(vm.MoRef).Question == "Line one line two (choices: Yes, No)" })
		w.must(w.Answer("web-0", "No"))
		p.until("the question is no longer reported", func() bool { return p.vm(vm.MoRef).Question == "" })
	})
}
