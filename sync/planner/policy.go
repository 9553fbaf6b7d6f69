package planner

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// policy is the spec with every default applied and every percentage resolved.
type policy struct {
	check                  v1alpha1.ReadinessCheck
	initialDelay, timeout  time.Duration
	minReady, deadline     time.Duration
	surge, minAvailable    int
	resize                 v1alpha1.ResizeWay
	replaceOnTemplate      bool
	onDelete, updatePaused bool
	canary                 int // -1: none
	heal                   v1alpha1.HealingAction
	maxUnhealthy, atOnce   int
	order                  v1alpha1.ScaleInOrder
	protected, removeFirst []string
	shutdown, quarantine   time.Duration
	retain                 bool
	replaceVanished        time.Duration // 0: never
}

func policyOf(spec *v1alpha1.VmGroupSpec, want int) policy {
	u, r, h, d := &spec.Update, &spec.Readiness, &spec.Healing, &spec.Deletion
	p := policy{
		check:        cmp.Or(r.Check, v1alpha1.ReadyPoweredOn),
		initialDelay: plan.Seconds(&r.InitialDelaySeconds, 0), timeout: plan.Seconds(r.TimeoutSeconds, v1alpha1.DefaultReadinessTimeout),
		minReady: plan.Seconds(&u.MinReadySeconds, 0), deadline: plan.Seconds(u.ProgressDeadlineSeconds, v1alpha1.DefaultProgressDeadline),
		surge:             scaled(u.MaxSurge, v1alpha1.DefaultMaxSurge, want, true),
		resize:            cmp.Or(u.Resize, v1alpha1.ResizeAuto),
		replaceOnTemplate: u.OnTemplateChange == v1alpha1.TemplateChangeReplace,
		onDelete:          u.Strategy == v1alpha1.UpdateOnDelete, updatePaused: u.Paused, canary: -1,
		heal:         cmp.Or(h.Action, v1alpha1.HealRestartThenReplace),
		maxUnhealthy: max(1, scaled(h.MaxUnhealthy, v1alpha1.DefaultMaxUnhealthy, want, false)),
		atOnce:       max(1, scaled(h.MaxConcurrent, v1alpha1.DefaultMaxConcurrent, want, true)),
		order:        cmp.Or(spec.ScaleIn.Order, v1alpha1.ScaleInHighestOrdinal),
		protected:    spec.ScaleIn.Protected, removeFirst: spec.ScaleIn.Remove,
		shutdown: plan.Seconds(d.ShutdownTimeoutSeconds, v1alpha1.DefaultShutdownTimeout), quarantine: plan.Seconds(&d.QuarantineSeconds, 0),
		retain: d.Policy == v1alpha1.DeletionRetain, replaceVanished: plan.Seconds(h.ReplaceVanishedAfterSeconds, 0),
	}
	unavailable := scaled(u.MaxUnavailable, v1alpha1.DefaultMaxUnavailable, want, false)
	if unavailable == 0 && p.surge == 0 {
		unavailable = 1 // as Deployments do (ResolveFenceposts): percentages of a small group may both come out as 0
	}
	p.minAvailable = max(0, want-unavailable)
	if u.Canary != nil {
		p.canary = scaled(u.Canary, "", want, true)
	}
	return p
}

// scaled resolves a number or percentage of want; an invalid one (which Validate refuses) is the default.
func scaled(v *intstr.IntOrString, otherwise string, want int, up bool) int {
	byDefault := intstr.FromString(otherwise)
	if v == nil {
		v = &byDefault
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, want, up)
	if err != nil {
		n, _ = intstr.GetScaledValueFromIntOrPercent(&byDefault, want, up)
	}
	return max(0, n)
}

// held says which field of the spec keeps members that differ from it as they are; empty if none does.
func (p *policy) held() string {
	switch {
	case p.onDelete:
		return "update.strategy is OnDelete"
	case p.updatePaused:
		return "update.paused is true"
	}
	return ""
}

func (p *policy) protects(name string) bool { return slices.Contains(p.protected, name) }
