package loop

import (
	"fmt"
	"time"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/sync/planner"
)

// Preview returns what would be done for a call, and does nothing. A group without a UID, such as one that was
// never applied, is identified by its namespace and name.
func (l *Loop) Preview(call plan.Call) (plan.Result, plan.Outlook, error) {
	isNew := false
	if call.Group.UID == "" {
		uids := l.vcenter.Identify(call.Group.Namespace, call.Group.Name)
		if len(uids) > 1 {
			return plan.Result{}, plan.Outlook{}, fmt.Errorf("several groups have members named %s: set metadata.uid to one of %v", call.Ref(), uids)
		}
		named := *call.Group
		call.Group = &named
		named.UID = noUID
		if isNew = len(uids) == 0; !isNew {
			named.UID = uids[0]
		}
	}
	if call.Group.Generation == 0 { // a manifest that isn't applied: newer than any known generation
		applied := *call.Group
		call.Group = &applied
		applied.Generation = generationToCome
	}
	now := time.Now()
	l.mu.Lock()
	call.Related = l.relatedFor(&call)
	for _, known := range l.groups {
		isNew = isNew && (known.ref.Namespace != call.Group.Namespace || known.ref.Name != call.Group.Name)
	}
	g := newGroup(call)
	var changes []plan.Change
	if known := l.groups[call.Group.UID]; known != nil {
		g = known.copy()
		if known.lease.call.Group != nil {
			changes = plan.Changes(&known.lease.call.Group.Spec, &call.Group.Spec)
		}
	}
	g.preview(call, now)
	observed := g.observe(l.cfg, now)
	observed.SharedClaims = l.sharedClaims(g, now)
	owns := g.owns(&call)
	l.mu.Unlock()
	result := l.look(&observed, call.Ref(), owns)
	if result.Refusal != nil {
		return result, plan.Outlook{}, nil
	}
	outlook := planner.Forecast(observed)
	if !call.Finalizing && len(observed.Group.Validate()) == 0 {
		needs := planner.NeedsOf(observed.Group)
		outlook.Needs, outlook.Warnings, outlook.Changes = &needs, planner.WarningsOf(observed.Group), changes
		outlook.Spec = &observed.Group.Spec
	}
	outlook.New = isNew && observed.State.Known
	return result, outlook, nil
}
