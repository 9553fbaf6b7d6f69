package v1alpha1

import (
	"fmt"
	"regexp"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Bounds of refresh and windows.
const (
	// MinAge and MaxAge bound update.maxAgeSeconds, in seconds: an hour, so that the server isn't replacing members all the time, and a year,
	// which is AWS's maximum for the lifetime of an instance.
	MinAge = 3600
	MaxAge = 31536000
	// MaxWindows bounds update.windows. MinWindow and MaxWindow bound the duration of a window, in seconds: a minute to a day.
	MaxWindows = 20
	MinWindow  = 60
	MaxWindow  = 86400
	// MaxTimeZone bounds the name of a time zone, in characters.
	MaxTimeZone = 64
	// DefaultTimeZone is the time zone of windows that name none.
	DefaultTimeZone = "UTC"
)

// Weekday is a day of the week.
// +kubebuilder:validation:Enum=Sunday;Monday;Tuesday;Wednesday;Thursday;Friday;Saturday
type Weekday string

// Weekdays are the days of the week, as time.Weekday counts them.
var Weekdays = []Weekday{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}

// Window is a recurring time in which updates can take members down.
type Window struct {
	// days on which the window opens, Sunday to Saturday; by default every day. A window can stay open past midnight.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	// +listType=set
	// +optional
	Days []Weekday `json:"days,omitempty"`
	// start is when the window opens, in timeZone, as HH:MM from 00:00 to 23:59. If daylight saving time skips that time, the window opens
	// correspondingly later; if the time occurs twice, the first counts.
	// +kubebuilder:validation:MinLength=5
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9]$`
	// +required
	Start string `json:"start"`
	// durationSeconds is how long the window stays open, in seconds: 60 to 86400 (24 hours).
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	// +required
	DurationSeconds int32 `json:"durationSeconds"`
	// timeZone is a name of the IANA time zone database, such as Europe/Berlin; default UTC. At most 64 characters.
	// +kubebuilder:validation:MaxLength=64
	// +default="UTC"
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

var timeOfDay = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)

func (w *Window) validate(path *field.Path) (errs field.ErrorList) {
	days := path.Child("days")
	if w.Days != nil && len(w.Days) == 0 {
		errs = append(errs, field.Required(days, "name a day, or leave the field out for every day"))
	}
	if len(w.Days) > len(Weekdays) {
		return append(errs, field.TooMany(days, len(w.Days), len(Weekdays)))
	}
	seen := map[Weekday]bool{}
	for i, day := range w.Days {
		if day == "" || oneOf(days, day, Weekdays...) != nil {
			errs = append(errs, field.NotSupported(days.Index(i), day, Weekdays))
		} else if seen[day] {
			errs = append(errs, field.Duplicate(days.Index(i), day))
		}
		seen[day] = true
	}
	if !timeOfDay.MatchString(w.Start) {
		errs = append(errs, field.Invalid(path.Child("start"), w.Start, "must be a time of day from 00:00 to 23:59, such as 22:30"))
	}
	errs = append(errs, between(path.Child("durationSeconds"), w.DurationSeconds, MinWindow, MaxWindow)...)
	if long := tooLong(path, "timeZone", w.TimeZone, MaxTimeZone); long != nil {
		return append(errs, long...)
	}
	if w.Location() == nil {
		errs = append(errs, field.Invalid(path.Child("timeZone"), w.TimeZone, "must be a name of the IANA time zone database, such as Europe/Berlin"))
	}
	return errs
}

// zones caches time zones by name, because loading one takes as long as planning a group.
var zones sync.Map

// Location returns the time zone of a window, or nil if no time zone has that name. "Local" isn't one: it would differ between servers.
func (w *Window) Location() *time.Location {
	name := w.TimeZone
	if name == "" {
		name = DefaultTimeZone
	}
	if known, ok := zones.Load(name); ok {
		return known.(*time.Location)
	}
	if name == "Local" {
		return nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	zones.Store(name, zone)
	return zone
}

// validateRefresh checks maxAgeSeconds and the windows.
func (u *Update) validateRefresh(path *field.Path, deadline int32) (errs field.ErrorList) {
	if age := path.Child("maxAgeSeconds"); u.MaxAgeSeconds != nil {
		errs = append(errs, between(age, *u.MaxAgeSeconds, MinAge, MaxAge)...)
		if errs == nil && *u.MaxAgeSeconds <= deadline {
			errs = append(errs, field.Invalid(age, *u.MaxAgeSeconds, fmt.Sprintf("must be greater than progressDeadlineSeconds, which is %d", deadline)))
		}
	}
	windows := path.Child("windows")
	if len(u.Windows) > MaxWindows {
		return append(errs, field.TooMany(windows, len(u.Windows), MaxWindows))
	}
	for i := range u.Windows {
		errs = append(errs, u.Windows[i].validate(windows.Index(i))...)
	}
	return errs[:min(len(errs), maxReported)]
}
