-- Written by `dally slurm setup`, removed by `dally slurm setup --undo`. Do not edit: that would stop the undoing.
-- Jobs that ask for GPUs arrive held. `dally serve` alone releases them, with the machines to run on.
local PARTITIONS = {--[[partitions]]}  -- none: all of them
local OPERATORS = {--[[operators]]}  -- user ids that may release jobs
local FACTS = {model = true, expected = true, checkpoint = true, group = true}
local DENIED = slurm.ESLURM_ACCESS_DENIED or slurm.ERROR
local NEVER = 4102444800  -- 2100: when a job may begin that its user holds

local function wants_gpus(job)
  for _, field in ipairs({"tres_per_job", "tres_per_node", "tres_per_task", "tres_per_socket"}) do
    if string.find(job[field] or "", "gpu", 1, true) then return true end
  end
  return false
end

local function usual_partition(part_list)
  for name, partition in pairs(part_list) do
    if partition.flag_default == 1 then return name end
  end
  return ""
end

local function ours(job, part_list)
  if next(PARTITIONS) == nil then return true end
  for name in string.gmatch(job.partition or usual_partition(part_list), "[^,]+") do
    if not PARTITIONS[name] then return false end
  end
  return true
end

-- What the script's #DALLY lines state, in the letters that a note may have.
local function facts_of(script)
  local found = ""
  for line in string.gmatch(script or "", "[^\r\n]+") do
    if string.find(line, "^#DALLY%s") then
      for name, value in string.gmatch(line, "([%a]+)=([%w%.%-_/]+)") do
        if FACTS[name] and #value < 100 then found = found .. ";" .. name .. "=" .. value end
      end
    end
  end
  return found
end

function slurm_job_submit(job, part_list, user)
  if not wants_gpus(job) or not ours(job, part_list) then return slurm.SUCCESS end
  if job.priority == 0 and not OPERATORS[user] then job.begin_time = NEVER end  -- its user holds it: sbatch -H
  job.priority = 0
  job.admin_comment = "dally:submit=" .. os.time() .. ";read=1" .. facts_of(job.script)
  return slurm.SUCCESS
end

function slurm_job_modify(job, record, part_list, user)
  if OPERATORS[user] or not string.find(record.admin_comment or "", "dally:", 1, true) then return slurm.SUCCESS end
  if record.priority ~= 0 then return slurm.SUCCESS end
  if job.nice ~= nil and job.nice ~= slurm.NO_VAL then
    return DENIED  -- Slurm would take it for a release
  end
  if job.priority == 0 then
    job.begin_time = NEVER
  elseif job.priority == 4294967295 then  -- scontrol release: back into the queue
    job.priority = 0
    job.begin_time = os.time()
  elseif job.priority ~= nil and job.priority ~= slurm.NO_VAL then
    return DENIED
  end
  return slurm.SUCCESS
end

return slurm.SUCCESS
