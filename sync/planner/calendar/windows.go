package calendar

import (
	"hash/fnv"
	"slices"
	"time"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
)

// Windows are those of a spec. (What Validate refuses is left out.)
func Windows(spec []v1alpha1.Window) (all []Window) {
	for i := range spec {
		w := Window{Length: time.Duration(spec[i].DurationSeconds) * time.Second, Zone: spec[i].Location()}
		start, err := time.Parse("15:04", spec[i].Start)
		if err != nil || w.Zone == nil {
			continue
		}
		w.Hour, w.Minute = start.Hour(), start.Minute()
		for _, day := range spec[i].Days {
			w.Days = append(w.Days, time.Weekday(slices.Index(v1alpha1.Weekdays, day)))
		}
		all = append(all, w)
	}
	return all
}

// Life is how old a member becomes whose group has a greatest age: between nine tenths of that and all of it. Members that were made
// together are spread evenly over that time by their ordinals, and groups by their UIDs.
func Life(greatest time.Duration, group string, ordinal int32) time.Duration {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(group))                   // never fails
	place := hash.Sum32() + uint32(ordinal)*2654435769 // 2^32 by the golden ratio: each multiple falls into the widest gap between those before it
	return greatest - time.Duration(int64(greatest.Seconds())/10*int64(place)>>32)*time.Second
}
